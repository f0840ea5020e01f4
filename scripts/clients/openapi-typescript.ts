import assert from 'node:assert/strict'
import createClient from 'openapi-fetch'
import type { paths } from './schema.d.ts'

const { BASE: baseUrl = '', TOKEN } = process.env
const api = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${TOKEN}` } })

const { data: products } = await api.GET('/products', { params: { query: { limit: 1 } } })
assert.ok(Array.isArray(products))

const created = await api.POST('/products', { body: { name: 'Lamp', price: 123456789.99 } })
assert.equal(created.data?.price, 123456789.99)
const { id } = created.data
const change = (etag: string) =>
  api.PUT('/products/{id}', {
    params: { path: { id }, header: { 'If-Match': etag } },
    body: { name: 'Desk lamp', price: 24.5 },
  })
const etag = String(created.response.headers.get('etag'))
assert.equal((await change(etag)).data?.name, 'Desk lamp')
assert.equal((await change(etag)).error?.errorCode, 'PRECONDITION_FAILED')

const { data: task } = await api.POST('/api/reports', { body: { reportType: 'products', format: 'csv' } })
assert.ok(task)
const params = { path: { taskId: task.taskId }, header: { Prefer: 'wait=30' } }
const { data: done } = await api.GET('/api/reports/{taskId}/status', { params })
assert.equal(done?.status, 'completed')
const { data: file } = await api.GET('/api/reports/{taskId}/download', {
  params: { path: { taskId: task.taskId } },
  parseAs: 'text',
})
assert.match(String(file), /^id,name,price/)
