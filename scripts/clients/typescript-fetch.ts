import assert from 'node:assert/strict'
import { Configuration, ProductsApi, ReportsApi, ResponseError } from './generated/index.ts'

const { BASE: basePath = '', TOKEN } = process.env
// The generated client sends an OAuth token in Authorization without a scheme, so `accessToken` includes the scheme.
const configuration = new Configuration({ basePath, accessToken: `Bearer ${TOKEN}` })
const products = new ProductsApi(configuration)
const reports = new ReportsApi(configuration)

assert.ok(Array.isArray(await products.listProducts({ limit: 1 })))

const created = await products.createProductRaw({ productCreate: { name: 'Lamp', price: 123456789.99 } })
const { id, price } = await created.value()
assert.equal(price, 123456789.99)
const ifMatch = String(created.raw.headers.get('etag'))
const change = { id, ifMatch, productCreate: { name: 'Desk lamp', price: 24.5 } }
assert.equal((await products.replaceProduct(change))?.name, 'Desk lamp')
await assert.rejects(products.replaceProduct(change), (error) => {
  assert.ok(error instanceof ResponseError)
  return error.response.status === 412
})

const { taskId } = await reports.createReport({ reportCreate: { reportType: 'products', format: 'csv' } })
assert.equal((await reports.readReportStatus({ taskId, prefer: 'wait=30' })).status, 'completed')
assert.match(await (await reports.downloadReport({ taskId })).text(), /^id,name,price/)
