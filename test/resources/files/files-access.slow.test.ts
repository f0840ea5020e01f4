import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { collection, DefinitionError, File, Line, plinth, Type } from '../../../src/plinth.ts'
import { appOn, token } from '../../support/app.ts'
import { forEachEngine, onSqlite } from '../../support/engines.ts'
import { form, formHeaders } from '../../support/forms.ts'

const types = ['application/pdf', 'image/png']
const scan = Type.Optional(File({ maxBytes: 10_000, types }))
const tenants = plinth({ claims: ({ client }) => ({ tenant: client.id.split('_')[1] }) })
const notes = tenants.collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ tenant: Line(1, 20), status: Type.Enum(['open', 'closed']), scan }),
  set: { tenant: ({ caller }) => caller.claims.tenant },
  access: {
    read: ({ claims }) => ({ tenant: claims.tenant }),
    write: ({ claims }) => ({ tenant: claims.tenant, status: 'open' }),
  },
})
const definition = tenants.service({ resources: [notes] })
const pdf = Buffer.from('%PDF-1.7\n')

forEachEngine((engine) => {
  describe('files under access rules', () => {
    const service = appOn(engine, { definition })
    const as = (tenant: string) => token('notes:read notes:write', `cli_${tenant}`)
    const call = (tenant: string, method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE', url: string, payload?: unknown) =>
      service.send({
        ...{ method, url, token: as(tenant) },
        ...(payload !== undefined && { payload: payload as Buffer }),
        ...(Buffer.isBuffer(payload) && { headers: { 'content-type': 'application/pdf' } }),
      })

    it('404 for every method on the file of a row that the caller cannot read, as for a missing row', async () => {
      const { id } = (await call('north', 'POST', '/notes', { status: 'open' })).json()
      assert.equal((await call('north', 'PUT', `/notes/${id}/scan`, pdf)).statusCode, 201)
      for (const method of ['GET', 'HEAD', 'PUT', 'DELETE'] as const) {
        const payload = method === 'PUT' ? pdf : undefined
        const [hidden, missing] = [
          await call('south', method, `/notes/${id}/scan`, payload),
          await call('south', method, '/notes/9999/scan', payload),
        ]
        assert.deepEqual([hidden.statusCode, missing.statusCode], [404, 404])
        assert.equal(hidden.headers['x-error-code'], missing.headers['x-error-code'])
      }
      assert.equal((await call('north', 'GET', `/notes/${id}/scan`)).statusCode, 200)
    })

    it('403 for PUT and DELETE of a file in a row that the caller can only read; nothing is stored', async () => {
      const { id } = (await call('north', 'POST', '/notes', { status: 'open' })).json()
      await call('north', 'PUT', `/notes/${id}/scan`, pdf)
      const { revision, ...row } = (await call('north', 'GET', `/notes/${id}`)).json()
      assert.equal((await call('north', 'PUT', `/notes/${id}`, { ...row, status: 'open' })).statusCode, 200)
      await service.db.write((tx) =>
        tx
          .updateTable('resource_notes' as 'products')
          .set({ status: 'closed' } as never)
          .execute(),
      )
      const before = (await service.results.keys()).length
      assert.equal((await call('north', 'PUT', `/notes/${id}/scan`, pdf)).statusCode, 403)
      assert.equal((await call('north', 'DELETE', `/notes/${id}/scan`)).statusCode, 403)
      assert.equal((await call('north', 'GET', `/notes/${id}/scan`)).statusCode, 200)
      assert.equal((await service.results.keys()).length, before)
    })
  })

  describe('multipart forms under access rules', () => {
    const service = appOn(engine, { definition, requireIfMatch: true })
    const send = (tenant: string, method: 'POST' | 'PATCH', url: string, json: object, headers: object = {}) =>
      service.send({
        ...{ method, url, token: token('notes:read notes:write', `cli_${tenant}`) },
        payload: form(['json', json], ['scan', pdf]),
        headers: { ...formHeaders, ...headers },
      })

    it('403 for a row that the rules forbid, 404 for a hidden row, 428 without If-Match; no file remains', async () => {
      const created = await send('north', 'POST', '/notes', { status: 'open' })
      assert.equal(created.statusCode, 201, created.body)
      const url = `/notes/${created.json().id}`
      const ifMatch = { 'if-match': '"1"' }
      assert.equal((await send('north', 'PATCH', url, {})).statusCode, 428)
      assert.equal((await send('south', 'PATCH', url, {}, ifMatch)).statusCode, 404)
      assert.equal((await send('north', 'POST', '/notes', { status: 'closed' })).statusCode, 403)
      assert.equal((await send('north', 'PATCH', url, { status: 'closed' }, ifMatch)).statusCode, 403)
      assert.equal((await service.results.keys()).length, 1)
      assert.equal((await send('north', 'PATCH', url, {}, ifMatch)).statusCode, 200)
    })
  })

  describe('files when PLINTH_REQUIRE_IF_MATCH is set', () => {
    const service = appOn(engine, { definition, requireIfMatch: true })
    it('428 for PUT and DELETE without a precondition', async () => {
      const sent = { token: token('notes:read notes:write', 'cli_north') }
      const created = await service.send({ ...sent, method: 'POST', url: '/notes', payload: { status: 'open' } })
      const url = `/notes/${created.json().id}/scan`
      const put = (headers: object) =>
        service.send({
          ...sent,
          method: 'PUT',
          url,
          payload: pdf,
          headers: { 'content-type': 'application/pdf', ...headers },
        })
      assert.equal((await put({})).statusCode, 428)
      const answer = await put({ 'if-none-match': '*' })
      assert.equal(answer.statusCode, 201)
      assert.equal((await service.send({ ...sent, method: 'DELETE', url })).statusCode, 428)
      assert.equal((await put({ 'if-match': answer.headers.etag })).statusCode, 204)
    })
  })
})

describe('the declaration of a file', () => {
  const declare = (options: object) => () =>
    collection({ path: '/notes', noun: 'note', body: Type.Object({ text: Line(1, 9), scan }), ...options } as never)
  const rejects = (options: object, text: RegExp) =>
    assert.throws(declare(options), (error) => error instanceof DefinitionError && text.test(error.message))

  it('rejects an unknown type and names the known ones', () => {
    const field = Type.Optional(File({ maxBytes: 1, types: ['application/x-foo'] }))
    rejects({ body: Type.Object({ scan: field }) }, /types has application\/x-foo; use .*application\/pdf/)
  })

  it('rejects a required file, a maximum above 5 GiB, and an empty list of types', () => {
    rejects({ body: Type.Object({ scan: File({ maxBytes: 1, types }) }) }, /scan must be Type\.Optional/)
    rejects({ body: Type.Object({ scan: Type.Optional(File({ maxBytes: 2 ** 40, types })) }) }, /maxBytes must be/)
    rejects({ body: Type.Object({ scan: Type.Optional(File({ maxBytes: 1, types: [] })) }) }, /types must be a list/)
  })

  it('rejects a file field with the name of the JSON part of forms', () => {
    rejects({ body: Type.Object({ json: scan }) }, /the field json: use another name/)
  })

  it('rejects a file in `filters`, `writeOnly` and `defaults`', () => {
    rejects({ filters: ['scan'] }, /scan/)
    rejects({ writeOnly: ['scan'] }, /writeOnly cannot include scan/)
    rejects({ defaults: { scan: { type: 'a', bytes: 1, sha256: 'b' } } }, /defaults cannot include scan/)
  })
})

onSqlite((engine) => {
  describe('the OpenAPI document of a resource with a file', () => {
    const app = appOn(engine, { definition })
    it('lists every media type and status of the file’s operations, and omits the file from the row’s request body', async () => {
      const document = (await app.send({ url: '/openapi.json', scopes: null })).json()
      const path = document.paths['/notes/{id}/scan']
      assert.deepEqual(Object.keys(path.put.requestBody.content), types)
      assert.deepEqual(Object.keys(path.get.responses['200'].content), types)
      assert.deepEqual(path.put.requestBody.content['image/png'].schema, { type: 'string', format: 'binary' })
      const statuses = Object.keys(path.put.responses)
      for (const status of ['201', '204', '400', '401', '403', '404', '412', '413', '415', '422', '428', '429', '503'])
        assert.ok(statuses.includes(status), status)
      for (const status of ['200', '206', '304', '404', '412', '416']) assert.ok(path.get.responses[status], status)
      assert.ok(path.delete.responses['204'])
      assert.equal(document.components.schemas.NoteInput?.properties.scan, undefined)
    })
  })
})
