import assert from 'node:assert/strict'
import { client } from './generated/client.gen.ts'
import * as api from './generated/sdk.gen.ts'

const { BASE: baseUrl = '', TOKEN } = process.env
client.setConfig({ baseUrl, auth: () => TOKEN })

const { data: products } = await api.listProducts({ query: { limit: 1 } })
assert.ok(Array.isArray(products))

const created = await api.createProduct({ body: { name: 'Lamp', price: 123456789.99 } })
assert.equal(created.data?.price, 123456789.99)
const { id } = created.data
const change = (etag: string) =>
  api.replaceProduct({ path: { id }, headers: { 'If-Match': etag }, body: { name: 'Desk lamp', price: 24.5 } })
const etag = String(created.response?.headers.get('etag'))
assert.equal((await change(etag)).data?.name, 'Desk lamp')
assert.equal((await change(etag)).error?.errorCode, 'PRECONDITION_FAILED')

const { data: task } = await api.createReport({ body: { reportType: 'products', format: 'csv' } })
assert.ok(task)
const path = { taskId: task.taskId }
const { data: done } = await api.readReportStatus({ path, headers: { Prefer: 'wait=30' } })
assert.equal(done?.status, 'completed')
const { data: file } = await api.downloadReport({ path, parseAs: 'text' })
assert.match(String(file), /^id,name,price/)
