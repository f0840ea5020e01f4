import java.io.File;
import java.io.FileInputStream;
import java.nio.file.Files;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.ApiResponse;
import org.openapitools.client.api.ProductsApi;
import org.openapitools.client.api.ReportsApi;
import org.openapitools.client.model.Product;
import org.openapitools.client.model.ProductCreate;
import org.openapitools.client.model.ReportCreate;
import org.openapitools.client.model.Task;

public class Program {
  static void expect(boolean holds, String what) {
    if (!holds) throw new AssertionError("expected: " + what);
  }

  public static void main(String[] arguments) throws Exception {
    ApiClient client = new ApiClient();
    client.setBasePath(System.getenv("BASE"));
    client.setSslCaCert(new FileInputStream(System.getenv("AUTHORITY")));
    client.setReadTimeout(40_000);
    client.setBearerToken(System.getenv("TOKEN"));
    ProductsApi products = new ProductsApi(client);
    ReportsApi reports = new ReportsApi(client);

    products.listProducts(1, null, null, null, null, null, null, null, null, null, null, null, null,
        null, null, null, null, null, null, null, null);

    ProductCreate lamp = new ProductCreate().name("Lamp").price(123456789.99);
    ApiResponse<Product> created = products.createProductWithHttpInfo(lamp, null, null);
    expect(created.getData().getPrice() == 123456789.99, "the price that was sent");
    String etag = created.getHeaders().entrySet().stream()
        .filter(header -> header.getKey().equalsIgnoreCase("etag")).findFirst().orElseThrow().getValue().get(0);
    long id = created.getData().getId();
    ProductCreate change = new ProductCreate().name("Desk lamp").price(24.5);
    expect(products.replaceProduct(id, change, etag, null, null, null).getName().equals("Desk lamp"), "the new name");
    try {
      products.replaceProduct(id, change, etag, null, null, null);
      throw new AssertionError("a stale If-Match was accepted");
    } catch (ApiException error) {
      expect(error.getCode() == 412, "412 for a stale tag");
    }

    ReportCreate wanted = new ReportCreate()
        .reportType(ReportCreate.ReportTypeEnum.PRODUCTS).format(ReportCreate.FormatEnum.CSV);
    Task task = reports.createReport(wanted, null, null);
    Task status = reports.readReportStatus(task.getTaskId(), null, null, null, null, null, "wait=30");
    expect(status.getStatus() == Task.StatusEnum.COMPLETED, "a completed report");
    File file = reports.downloadReport(task.getTaskId(), null, null, null, null, null);
    expect(new String(Files.readAllBytes(file.toPath())).startsWith("id,name,price"), "the report");
  }
}
