package main

import (
	"bytes"
	"context"
	"log"
	"net/http"
	"os"

	api "clients/openapi"
)

func expect(holds bool, what string, err error) {
	if !holds {
		log.Fatal("expected: ", what, " ", err)
	}
}

func main() {
	configuration := api.NewConfiguration()
	configuration.Servers = api.ServerConfigurations{{URL: os.Getenv("BASE")}}
	client := api.NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), api.ContextAccessToken, os.Getenv("TOKEN"))

	_, _, err := client.ProductsAPI.ListProducts(ctx).Limit(1).Execute()
	expect(err == nil, "a list", err)

	lamp := *api.NewProductCreate("Lamp", 123456789.99)
	created, response, err := client.ProductsAPI.CreateProduct(ctx).ProductCreate(lamp).Execute()
	expect(err == nil && created.Price == 123456789.99, "the price that was sent", err)
	etag := response.Header.Get("ETag")
	change := func() (*api.Product, *http.Response, error) {
		body := *api.NewProductCreate("Desk lamp", 24.5)
		return client.ProductsAPI.ReplaceProduct(ctx, created.Id).ProductCreate(body).IfMatch(etag).Execute()
	}
	changed, _, err := change()
	expect(err == nil && changed.Name == "Desk lamp", "the new name", err)
	_, response, err = change()
	expect(err != nil && response.StatusCode == 412, "412 for a stale tag", err)

	task, _, err := client.ReportsAPI.CreateReport(ctx).ReportCreate(*api.NewReportCreate("products", "csv")).Execute()
	expect(err == nil, "a task", err)
	status, _, err := client.ReportsAPI.ReadReportStatus(ctx, task.TaskId).Prefer("wait=30").Execute()
	expect(err == nil && status.Status == "completed", "a completed report", err)
	file, _, err := client.ReportsAPI.DownloadReport(ctx, task.TaskId).Execute()
	expect(err == nil, "the report", err)
	content, err := os.ReadFile(file.Name())
	expect(err == nil && bytes.HasPrefix(content, []byte("id,name,price")), "the content of the report", err)
}
