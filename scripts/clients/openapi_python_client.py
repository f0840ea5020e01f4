import os
import ssl

from plinth_client import AuthenticatedClient
from plinth_client.api.products import create_product, list_products, replace_product
from plinth_client.api.reports import create_report, download_report, read_report_status
from plinth_client.models import ErrorBody, ProductCreate, ReportCreate, ReportCreateFormat, ReportCreateReportType

tls = ssl.create_default_context(cafile=os.environ["AUTHORITY"])
client = AuthenticatedClient(os.environ["BASE"], os.environ["TOKEN"], verify_ssl=tls, timeout=40)

assert isinstance(list_products.sync(client=client, limit=1), list)

created = create_product.sync_detailed(client=client, body=ProductCreate(name="Lamp", price=123456789.99))
assert created.parsed.price == 123456789.99
change = {"if_match": created.headers["etag"], "body": ProductCreate(name="Desk lamp", price=24.5)}
assert replace_product.sync(created.parsed.id, client=client, **change).name == "Desk lamp"
refused = replace_product.sync(created.parsed.id, client=client, **change)
assert isinstance(refused, ErrorBody) and refused.error_code == "PRECONDITION_FAILED"

wanted = ReportCreate(report_type=ReportCreateReportType.PRODUCTS, format_=ReportCreateFormat.CSV)
task = create_report.sync(client=client, body=wanted)
assert read_report_status.sync(task.task_id, client=client, prefer="wait=30").status == "completed"
file = download_report.sync(task.task_id, client=client)
assert file.payload.read().startswith(b"id,name,price")
