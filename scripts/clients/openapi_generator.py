import os

from openapi_client import ApiClient, ApiException, Configuration, ProductCreate, ProductsApi, ReportCreate, ReportsApi

configuration = Configuration(
    host=os.environ["BASE"], access_token=os.environ["TOKEN"], ssl_ca_cert=os.environ["AUTHORITY"]
)
with ApiClient(configuration) as client:
    products, reports = ProductsApi(client), ReportsApi(client)
    assert isinstance(products.list_products(limit=1), list)

    created = products.create_product_with_http_info(ProductCreate(name="Lamp", price=123456789.99))
    assert created.data.price == 123456789.99
    change = (created.data.id, ProductCreate(name="Desk lamp", price=24.5), created.headers["etag"])
    assert products.replace_product(*change).name == "Desk lamp"
    try:
        products.replace_product(*change)
        raise AssertionError("a stale If-Match was accepted")
    except ApiException as error:
        assert error.status == 412 and error.data.error_code == "PRECONDITION_FAILED"

    task = reports.create_report(ReportCreate(reportType="products", format="csv"))
    assert reports.read_report_status(task.task_id, prefer="wait=30").status == "completed"
    assert bytes(reports.download_report(task.task_id)).startswith(b"id,name,price")
