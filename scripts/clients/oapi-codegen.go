package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"

	"clients/api"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func expect(holds bool, what string) {
	if !holds {
		log.Fatal("expected: ", what)
	}
}

func main() {
	authorize := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv("TOKEN"))
		return nil
	}
	client := must(api.NewClientWithResponses(os.Getenv("BASE"), api.WithRequestEditorFn(authorize)))
	ctx := context.Background()

	limit := api.Limit(1)
	list := must(client.ListProductsWithResponse(ctx, &api.ListProductsParams{Limit: &limit}))
	expect(list.JSON200 != nil, "a list")

	created := must(client.CreateProductWithResponse(ctx, nil, api.ProductCreate{Name: "Lamp", Price: 123456789.99}))
	expect(created.JSON201.Price == 123456789.99, "the price that was sent")
	etag := created.HTTPResponse.Header.Get("ETag")
	change := func() *api.ReplaceProductResponse {
		params := &api.ReplaceProductParams{IfMatch: &etag}
		body := api.ProductCreate{Name: "Desk lamp", Price: 24.5}
		return must(client.ReplaceProductWithResponse(ctx, created.JSON201.Id, params, body))
	}
	expect(change().JSON200.Name == "Desk lamp", "the new name")
	refused := change()
	expect(refused.StatusCode() == 412, "412 for a stale tag")
	// The generated parser compares the whole media type, including the charset, so it does not parse the body.
	var body api.ErrorBody
	expect(json.Unmarshal(refused.Body, &body) == nil && *body.ErrorCode == api.PRECONDITIONFAILED, "the error code")

	wanted := api.ReportCreate{ReportType: "products", Format: "csv"}
	task := must(client.CreateReportWithResponse(ctx, nil, wanted)).JSON202
	wait := "wait=30"
	status := must(client.ReadReportStatusWithResponse(ctx, task.TaskId, &api.ReadReportStatusParams{Prefer: &wait}))
	expect(string(status.JSON200.Status) == "completed", "a completed report")
	file := must(client.DownloadReportWithResponse(ctx, task.TaskId, nil))
	expect(bytes.HasPrefix(file.Body, []byte("id,name,price")), "the report")
}
