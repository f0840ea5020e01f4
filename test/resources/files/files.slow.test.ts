import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import { collection, File, Line, Ref, service, Type, view } from '../../../src/plinth.ts'
import { appOn } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const scan = Type.Optional(File({ maxBytes: 100_000, types: ['application/pdf', 'text/plain'] }))
const folders = collection({ path: '/folders', noun: 'folder', body: Type.Object({ title: Line(1, 40) }) })
const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    reference: Line(1, 20),
    status: Type.Enum(['draft', 'paid']),
    folderId: Type.Optional(Ref(folders, { onDelete: 'cascade' })),
    scan,
  }),
  defaults: { status: 'draft' },
  locked: { status: 'paid' },
})
const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ text: Line(1, 40), picture: scan }),
  keepDeleted: '1 days',
})
const renamed = view(invoices, { rename: { scan: 'document' } })
const hidden = view(notes, { hide: ['picture'] })
const definition = service({
  resources: [folders, invoices, notes],
  versions: { v1: [folders, renamed, hidden], v2: [folders, invoices, notes] },
})
const scopes = 'invoices:read invoices:write notes:read notes:write folders:write folders:read'

const pdf = (size = 2_000) => Buffer.concat([Buffer.from('%PDF-1.7\n'), randomBytes(size)])
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('base64')

forEachEngine((engine) => {
  describe('files of rows', () => {
    const service = appOn(engine, { definition })
    type Headers = Record<string, string>
    const put = (url: string, payload: Buffer | string, headers: Headers = {}) =>
      service.send({ method: 'PUT', url, scopes, payload, headers: { 'content-type': 'application/pdf', ...headers } })
    const get = (url: string, headers: Headers = {}) => service.send({ url, scopes, headers })
    const remove = (url: string, headers: Headers = {}) => service.send({ method: 'DELETE', url, scopes, headers })
    const post = async (url: string, payload: object) => {
      const answer = await service.send({ method: 'POST', url, scopes, payload })
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json()
    }
    const newInvoice = async (more: object = {}): Promise<string> =>
      `/v2/invoices/${(await post('/v2/invoices', { reference: 'A-1', ...more })).id}`
    const code = (answer: { headers: object }) => (answer.headers as Headers)['x-error-code']

    it('201 for the first upload; the row then describes the file and has a new revision', async () => {
      const url = await newInvoice()
      const bytes = pdf()
      const answer = await put(`${url}/scan`, bytes)
      assert.equal(answer.statusCode, 201, answer.body)
      assert.equal(answer.headers.location, `${url}/scan`)
      assert.equal(answer.headers.etag, `"${sha256(bytes)}"`)
      const row = await get(url)
      assert.deepEqual(row.json().scan, { type: 'application/pdf', bytes: bytes.length, sha256: sha256(bytes) })
      assert.equal(row.headers.etag, '"2"')
    })

    it('204 for a replacement; GET then returns the new content', async () => {
      const url = `${await newInvoice()}/scan`
      const [first, second] = [pdf(), pdf()]
      await put(url, first)
      assert.equal((await put(url, second)).statusCode, 204)
      assert.ok((await get(url)).rawPayload.equals(second))
    })

    it('200 with a strong ETag, the digest, the date and a safe file name', async () => {
      const url = `${await newInvoice()}/scan`
      const bytes = pdf()
      await put(url, bytes)
      const answer = await get(url)
      assert.equal(answer.statusCode, 200)
      assert.ok(answer.rawPayload.equals(bytes))
      const { headers } = answer
      assert.equal(headers['content-type'], 'application/pdf')
      assert.equal(headers['x-content-type-options'], 'nosniff')
      assert.equal(headers['repr-digest'], `sha-256=:${sha256(bytes)}:`)
      assert.equal(headers['last-modified'], 'Sun, 01 Mar 2026 12:00:00 GMT')
      assert.match(String(headers['content-disposition']), /^attachment; filename="invoice-\d+-scan\.pdf"$/)
      const head = await service.send({ method: 'HEAD', url, scopes })
      assert.deepEqual([head.statusCode, head.headers['content-length'], head.body], [200, String(bytes.length), ''])
    })

    it('206 for a range, 416 for a range outside the file, 304 for the same ETag or date', async () => {
      const url = `${await newInvoice()}/scan`
      const bytes = pdf()
      await put(url, bytes)
      const etag = `"${sha256(bytes)}"`
      const part = await get(url, { range: 'bytes=5-9', 'if-range': etag })
      assert.deepEqual([part.statusCode, part.headers['content-range']], [206, `bytes 5-9/${bytes.length}`])
      assert.ok(part.rawPayload.equals(bytes.subarray(5, 10)))
      assert.equal((await get(url, { range: 'bytes=5-9', 'if-range': '"other"' })).statusCode, 200)
      assert.equal((await get(url, { range: 'bytes=99999-' })).statusCode, 416)
      assert.equal((await get(url, { 'if-none-match': etag })).statusCode, 304)
      assert.equal((await get(url, { 'if-modified-since': 'Sun, 01 Mar 2026 12:00:00 GMT' })).statusCode, 304)
      assert.equal((await get(url, { 'if-match': '"other"' })).statusCode, 412)
    })

    it('200 despite If-Modified-Since if the file was replaced within the same second', async () => {
      const url = `${await newInvoice()}/scan`
      await put(url, pdf())
      await put(url, pdf())
      assert.equal((await get(url, { 'if-modified-since': 'Sun, 01 Mar 2026 12:00:00 GMT' })).statusCode, 200)
    })

    it('412 for If-None-Match: * if a file exists, for If-Match: * if none exists, and for a different ETag in If-Match', async () => {
      const url = `${await newInvoice()}/scan`
      const bytes = pdf()
      assert.equal((await put(url, bytes, { 'if-match': '*' })).statusCode, 412)
      assert.equal((await put(url, bytes, { 'if-none-match': '*' })).statusCode, 201)
      assert.equal((await put(url, pdf(), { 'if-none-match': '*' })).statusCode, 412)
      assert.equal((await put(url, pdf(), { 'if-match': '"other"' })).statusCode, 412)
      assert.equal((await remove(url, { 'if-match': '"other"' })).statusCode, 412)
      assert.equal((await put(url, pdf(), { 'if-match': `"${sha256(bytes)}"` })).statusCode, 204)
    })

    it('413 for a file that is too large, with and without Content-Length', async () => {
      const url = `${await newInvoice()}/scan`
      const answer = await put(url, pdf(100_000))
      assert.deepEqual([answer.statusCode, code(answer)], [413, 'PAYLOAD_TOO_LARGE'])
      const chunked = await service.send({
        ...{ method: 'PUT', url, scopes, headers: { 'content-type': 'application/pdf' } },
        payload: (await import('node:stream')).Readable.from([pdf(60_000), randomBytes(60_000)]),
      })
      assert.equal(chunked.statusCode, 413)
      assert.equal((await get(url)).statusCode, 404)
    })

    it('415 for a type that the field does not allow, a content coding, and content that does not match its type', async () => {
      const url = `${await newInvoice()}/scan`
      const other = await put(url, pdf(), { 'content-type': 'image/png' })
      assert.deepEqual([other.statusCode, other.headers.accept], [415, 'application/pdf, text/plain'])
      assert.equal((await put(url, pdf(), { 'content-encoding': 'gzip' })).statusCode, 415)
      assert.equal((await put(url, pdf(), { 'content-type': 'text/plain' })).statusCode, 415)
      assert.equal((await put(url, 'plain text')).statusCode, 415)
      assert.equal((await put(url, 'a\0b', { 'content-type': 'text/plain' })).statusCode, 415)
      assert.equal((await put(url, 'text', { 'content-type': 'text/plain; charset=latin1' })).statusCode, 415)
      assert.equal((await put(url, 'größe', { 'content-type': 'text/plain; charset=UTF-8' })).statusCode, 201)
      assert.equal((await get(url)).headers['content-type'], 'text/plain; charset=utf-8')
    })

    it('422 if the content does not match a digest header, 400 for a malformed digest', async () => {
      const url = `${await newInvoice()}/scan`
      const bytes = pdf()
      const digest = `sha-256=:${sha256(bytes)}:`
      assert.equal((await put(url, pdf(), { 'repr-digest': digest })).statusCode, 422)
      assert.equal((await put(url, pdf(), { 'content-digest': digest })).statusCode, 422)
      assert.equal((await put(url, bytes, { 'content-digest': 'sha-256=abc' })).statusCode, 400)
      const both = { 'content-digest': `md5=:AAAA:, ${digest}`, 'repr-digest': digest }
      assert.equal((await put(url, bytes, both)).statusCode, 201)
    })

    it('404 for PUT to a missing row, and for GET and DELETE of a missing file', async () => {
      assert.equal((await put('/v2/invoices/99999/scan', pdf())).statusCode, 404)
      const url = `${await newInvoice()}/scan`
      for (const answer of [await get(url), await remove(url)]) assert.equal(answer.statusCode, 404)
    })

    it('409 for an upload to a locked row', async () => {
      const url = await newInvoice({ status: 'paid' })
      const answer = await put(`${url}/scan`, pdf())
      assert.deepEqual([answer.statusCode, code(answer)], [409, 'RESOURCE_LOCKED'])
    })

    it('403 without the write scope, and 401 without a token', async () => {
      const url = `${await newInvoice()}/scan`
      const request = { method: 'PUT', url, payload: pdf(), headers: { 'content-type': 'application/pdf' } } as const
      assert.equal((await service.send({ ...request, scopes: 'invoices:read' })).statusCode, 403)
      assert.equal((await service.send({ ...request, scopes: null })).statusCode, 401)
    })

    it('are not changed by a value for their field in the JSON body of a POST, PUT or PATCH', async () => {
      const value = { type: 'application/pdf', bytes: 1, sha256: 'x' }
      const url = await newInvoice({ scan: value })
      assert.equal((await get(url)).json().scan, undefined)
      await put(`${url}/scan`, pdf())
      const { scan: stored } = (await get(url)).json()
      const write = (method: 'PUT' | 'PATCH', payload: object) => service.send({ method, url, scopes, payload })
      assert.deepEqual((await write('PUT', { reference: 'B', scan: value })).json().scan, stored)
      assert.deepEqual((await write('PUT', { reference: 'C' })).json().scan, stored)
      assert.deepEqual((await write('PATCH', { reference: 'D', scan: null })).json().scan, stored)
    })

    it('204 for DELETE, which removes the file from the row', async () => {
      const url = await newInvoice()
      await put(`${url}/scan`, pdf())
      assert.equal((await remove(`${url}/scan`)).statusCode, 204)
      const row = await get(url)
      assert.deepEqual([row.json().scan, row.headers.etag], [undefined, '"3"'])
      assert.equal((await get(`${url}/scan`)).statusCode, 404)
    })

    it('are served under the new name of a renamed field; 404 for a hidden field', async () => {
      const url = await newInvoice()
      const bytes = pdf()
      const viewed = url.replace('v2', 'v1')
      assert.equal((await put(`${viewed}/document`, bytes)).statusCode, 201)
      assert.ok((await get(`${url}/scan`)).rawPayload.equals(bytes))
      assert.equal((await get(viewed)).json().document.bytes, bytes.length)
      assert.equal((await get(`${viewed}/scan`)).statusCode, 404)
      const { id } = await post('/v1/notes', { text: 'a' })
      assert.equal((await put(`/v1/notes/${id}/picture`, bytes)).statusCode, 404)
      assert.equal((await put(`/v2/notes/${id}/picture`, bytes)).statusCode, 201)
      const changed = await service.send({ method: 'PUT', url: `/v1/notes/${id}`, scopes, payload: { text: 'b' } })
      assert.equal(changed.statusCode, 200)
      assert.ok((await get(`/v2/notes/${id}/picture`)).rawPayload.equals(bytes))
    })
  })
})
