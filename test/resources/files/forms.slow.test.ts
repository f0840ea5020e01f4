import assert from 'node:assert/strict'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { removeUnusedFiles } from '../../../src/files/remove-unused.ts'
import { collection, File, hooks, Line, refuse, service, Type, view } from '../../../src/plinth.ts'
import { appOn, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { form, formHeaders, type Part } from '../../support/forms.ts'

const scan = Type.Optional(File({ maxBytes: 400_000, types: ['application/pdf', 'text/plain'] }))
const photo = Type.Optional(File({ maxBytes: 1_000, types: ['image/png'] }))
const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    reference: Line(1, 20),
    status: Type.Enum(['draft', 'paid']),
    amount: Type.Optional(Type.Integer()),
    scan,
    photo,
  }),
  unique: ['reference'],
  defaults: { status: 'draft' },
  locked: { status: 'paid' },
})
const cards = collection({
  path: '/cards',
  noun: 'card',
  ids: 'uuid',
  body: Type.Object({ text: Type.Optional(Line(1, 40)), scan }),
})
const plain = collection({ path: '/plain', noun: 'plain', body: Type.Object({ text: Type.Optional(Line(1, 40)) }) })
const refusing = hooks(cards, {
  created: ({ text }) => {
    if (text === 'refused') throw refuse('text', 'is refused')
  },
})
const renamed = view(invoices, { rename: { scan: 'document' }, hide: ['photo'] })
const definition = service({
  resources: [invoices, cards, plain],
  code: { refusing },
  versions: { v1: [renamed, cards, plain], v2: [invoices, cards, plain] },
})
const scopes = 'invoices:read invoices:write cards:read cards:write plain:write'

const pdf = (size = 2_000) => Buffer.concat([Buffer.from('%PDF-1.7\n'), randomBytes(size)])
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('base64')
const fileOf = (bytes: Buffer) => ({ type: 'application/pdf', bytes: bytes.length, sha256: sha256(bytes) })

let count = 0
const reference = () => `A-${++count}`

forEachEngine((engine) => {
  describe('forms with files', () => {
    const service = appOn(engine, { definition, maxUploads: 2 })
    type Method = 'POST' | 'PUT' | 'PATCH'
    const send = (method: Method, url: string, payload: Buffer | Readable, headers: Record<string, string> = {}) =>
      service.send({
        ...{ method, url, scopes, payload },
        headers: { ...formHeaders, ...headers },
      })
    const get = (url: string) => service.send({ url, scopes })
    const code = ({ headers }: { headers: object }) => (headers as Record<string, string>)['x-error-code']
    /** Removes every file that no row refers to, and returns the number of remaining files. */
    const settled = async () => {
      const now = () => service.clock.now + 3 * 3_600_000
      await removeUnusedFiles({
        db: service.db,
        store: service.results,
        now,
        onError: (error) => assert.fail(String(error)),
      })
      return (await service.results.keys()).length
    }
    const uploads = async () =>
      service.db.read.selectFrom('storedFiles').select('key').where('state', '=', 'uploading').execute()
    const newInvoice = async (...parts: Part[]): Promise<string> => {
      const answer = await send('POST', '/v2/invoices', form(['json', { reference: reference() }], ...parts))
      assert.equal(answer.statusCode, 201, answer.body)
      return `/v2/invoices/${answer.json().id}`
    }

    it('201 for a POST with two files; the row shows both, has revision 1 and serves them', async () => {
      const [bytes, png] = [pdf(300_000), Buffer.from('\x89PNG\r\n\x1a\n rest', 'latin1')]
      const payload = form(
        ['json', { reference: reference(), amount: 5 }],
        ['scan', bytes],
        ['photo', png, 'image/png'],
      )
      const answer = await send('POST', '/v2/invoices', payload)
      assert.equal(answer.statusCode, 201, answer.body)
      const { id, amount, scan: stored } = answer.json()
      assert.deepEqual([amount, stored, answer.headers.etag], [5, fileOf(bytes), '"1"'])
      assert.ok((await get(`/v2/invoices/${id}/scan`)).rawPayload.equals(bytes))
      assert.ok((await get(`/v2/invoices/${id}/photo`)).rawPayload.equals(png))
    })

    it('201 for a POST with only a file, and for one with only a `json` part that has no Content-Type', async () => {
      const bytes = pdf()
      const alone = await send('POST', '/v2/cards', form(['scan', bytes]))
      assert.deepEqual([alone.statusCode, alone.json().scan], [201, fileOf(bytes)])
      assert.ok((await get(`/v2/cards/${alone.json().id}/scan`)).rawPayload.equals(bytes))
      const untyped = await send('POST', '/v2/cards', form(['json', '{"text":"a"}']))
      assert.deepEqual([untyped.statusCode, untyped.json().text, untyped.json().scan], [201, 'a', undefined])
    })

    it('200 for PUT and PATCH with a file, in one revision; the previous file is removed', async () => {
      const before = await settled()
      const url = await newInvoice(['scan', pdf()])
      const [second, third] = [pdf(), pdf()]
      const whole = form(['json', { reference: reference(), amount: 1 }], ['scan', second])
      const put = await send('PUT', url, whole, { 'if-match': '"1"' })
      assert.equal(put.statusCode, 200, put.body)
      assert.deepEqual([put.json().scan, put.headers.etag], [fileOf(second), '"2"'])
      const merge: Part = ['json', { amount: null }, 'application/merge-patch+json']
      const patched = await send('PATCH', url, form(merge, ['scan', third]))
      assert.equal(patched.statusCode, 200, patched.body)
      const { amount, scan: stored } = patched.json()
      assert.deepEqual([amount, stored, patched.headers.etag], [undefined, fileOf(third), '"3"'])
      assert.ok((await get(`${url}/scan`)).rawPayload.equals(third))
      const kept = await send('PATCH', url, form(['json', { amount: 2 }]))
      assert.deepEqual(kept.json().scan, fileOf(third))
      assert.equal(await settled(), before + 1)
    })

    it('201 and 200 for forms with the field names of a view; 422 for a part with a name that the view does not have', async () => {
      const bytes = pdf()
      const created = await send(
        'POST',
        '/v1/invoices',
        form(['json', { reference: reference() }], ['document', bytes]),
      )
      assert.deepEqual([created.statusCode, created.json().document], [201, fileOf(bytes)])
      const url = `/v1/invoices/${created.json().id}`
      const next = pdf()
      assert.deepEqual((await send('PATCH', url, form(['document', next]))).json().document, fileOf(next))
      for (const name of ['scan', 'photo']) assert.equal((await send('PATCH', url, form([name, next]))).statusCode, 422)
      assert.ok((await get(`${url.replace('v1', 'v2')}/scan`)).rawPayload.equals(next))
    })

    it('400, 413, 415 and 422 for an invalid form; no row and no file remain', async () => {
      const before = await settled()
      const rows = async () => (await get('/v2/invoices?limit=100')).json().items.length
      const rowsBefore = await rows()
      const json: Part = ['json', { reference: reference() }]
      const file: Part = ['scan', pdf()]
      const png = (size: number) => Buffer.from(`\x89PNG\r\n\x1a\n${'x'.repeat(size)}`, 'latin1')
      const digest = createHash('sha256').digest('base64')
      const refused: [what: string, payload: Buffer, status: number, code?: string][] = [
        ['JSON after a file', form(file, json), 400, 'MISSING_REQUIRED_FIELD'],
        ['JSON twice', form(json, file, json), 400],
        ['two files for a field', form(json, file, file), 422, 'VALIDATION_ERROR'],
        ['an unknown part', form(json, file, ['other', pdf()]), 422, 'VALIDATION_ERROR'],
        ['a field as a part', form(['reference', 'A-1']), 422, 'VALIDATION_ERROR'],
        ['a file for a field that is not a file', form(json, file, ['amount', pdf()]), 422, 'VALIDATION_ERROR'],
        ['another type than declared', form(json, file, ['photo', pdf()]), 415],
        ['another content than its type', form(json, file, ['photo', pdf(100), 'image/png']), 415],
        ['text in another charset', form(json, ['scan', 'a', 'text/plain; charset=iso-8859-1']), 415],
        ['a file that is too large', form(json, file, ['photo', png(1_000), 'image/png']), 413],
        ['another digest', form(json, ['scan', pdf(), `application/pdf\r\nRepr-Digest: sha-256=:${digest}:`]), 422],
        ['malformed JSON', form(['json', '{"reference":'], file), 400],
        ['malformed UTF-8', form(['json', Buffer.from([0x22, 0xff, 0x22]), 'application/json'], file), 400],
        ['JSON in another charset', form(['json', '{}', 'application/json; charset=utf-16'], file), 415],
        ['an invalid field', form(['json', { reference: 'x'.repeat(99) }], file), 422, 'VALIDATION_ERROR'],
        ['XML instead of JSON', form(['json', '<a/>', 'application/xml'], file), 415],
        ['a merge patch in a POST', form(['json', '{}', 'application/merge-patch+json'], file), 415],
        ['JSON that is too large', form(['json', { reference: 'x'.repeat(1_100_000) }], file), 413],
        ['too many parts', form(json, file, file, file), 400],
        ['a body that ends in a file', form(json, file).subarray(0, -30), 400],
        ['a body without the last boundary', form(json, file).subarray(0, -8), 400],
        ['no parts', form(), 400],
        ['no boundary in the body', Buffer.from('nothing'), 400],
        ['no body', Buffer.alloc(0), 400],
      ]
      for (const [what, payload, status, expected] of refused) {
        const answer = await send('POST', '/v2/invoices', payload)
        assert.equal(answer.statusCode, status, `${what}: ${answer.body}`)
        if (expected) assert.equal(code(answer), expected, what)
        assert.deepEqual(await uploads(), [], what)
      }
      assert.deepEqual([await settled(), await rows()], [before, rowsBefore])
      const named = await send('POST', '/v2/invoices', form(json, ['other', pdf()]))
      assert.deepEqual(named.json().errors, [
        { field: 'other', message: 'is not a file; use scan, photo, or put the field into json' },
      ])
    })

    it('400 without a boundary; 415 for an encoded body or part, and for a form sent to a resource without files', async () => {
      const payload = form(['json', {}])
      assert.equal(
        (await send('POST', '/v2/cards', payload, { 'content-type': 'multipart/form-data' })).statusCode,
        400,
      )
      assert.equal((await send('POST', '/v2/cards', payload, { 'content-encoding': 'gzip' })).statusCode, 415)
      const encoded = form(['scan', pdf()])
        .toString('latin1')
        .replace('\r\n\r\n', '\r\nContent-Transfer-Encoding: base64\r\n\r\n')
      assert.equal((await send('POST', '/v2/cards', Buffer.from(encoded, 'latin1'))).statusCode, 415)
      const other = await send('POST', '/v2/cards', Buffer.from('<a/>'), { 'content-type': 'application/xml' })
      assert.equal(other.headers.accept, 'application/json, multipart/form-data')
      assert.equal((await send('POST', '/v2/plain', payload)).statusCode, 415)
    })

    it('404 for a missing row, 409 for a locked one and 412 for a changed one; no file is stored', async () => {
      const before = await settled()
      const url = await newInvoice()
      const { create } = service.results
      service.results.create = () => assert.fail('a file was stored')
      const payload = () => form(['json', { amount: 1 }], ['scan', pdf()])
      assert.equal((await send('PATCH', '/v2/invoices/99999', payload())).statusCode, 404)
      assert.equal((await send('PATCH', url, payload(), { 'if-match': '"9"' })).statusCode, 412)
      const paid = await service.send({ method: 'PATCH', url, scopes, payload: { status: 'paid' } })
      assert.equal(paid.statusCode, 200)
      const locked = await send('PATCH', url, payload())
      assert.deepEqual([locked.statusCode, code(locked)], [409, 'RESOURCE_LOCKED'])
      service.results.create = create
      assert.deepEqual([await uploads(), await settled()], [[], before])
    })

    it('403 for a missing scope, 409 for a duplicate and 422 from a hook; no file remains', async () => {
      const before = await settled()
      const twice = form(['json', { reference: reference() }], ['scan', pdf()])
      assert.equal((await send('POST', '/v2/invoices', twice)).statusCode, 201)
      assert.equal((await send('POST', '/v2/invoices', twice)).statusCode, 409)
      assert.equal(
        (await send('POST', '/v2/cards', form(['json', { text: 'refused' }], ['scan', pdf()]))).statusCode,
        422,
      )
      const request = { method: 'POST', url: '/v2/cards', scopes: 'cards:read', payload: twice } as const
      const denied = await service.send({ ...request, headers: formHeaders })
      assert.equal(denied.statusCode, 403)
      assert.deepEqual([await uploads(), (await service.results.keys()).length], [[], before + 1])
    })

    it('201 with the first response for a repeated Idempotency-Key with the same file, 422 with a different file or none', async () => {
      const before = await settled()
      const key = { 'idempotency-key': randomUUID() }
      const json: Part = ['json', { reference: reference() }]
      const payload = form(json, ['scan', pdf()])
      const first = await send('POST', '/v2/invoices', payload, key)
      assert.equal(first.statusCode, 201, first.body)
      const again = await send('POST', '/v2/invoices', payload, key)
      assert.deepEqual([again.statusCode, again.headers['idempotent-replayed']], [201, 'true'])
      assert.deepEqual(again.json(), first.json())
      const other = await send('POST', '/v2/invoices', form(json, ['scan', pdf()]), key)
      assert.deepEqual([other.statusCode, code(other)], [422, 'IDEMPOTENCY_KEY_REUSED'])
      const none = await send('POST', '/v2/invoices', form(json), key)
      assert.equal(none.statusCode, 422)
      assert.deepEqual([await uploads(), await settled()], [[], before + 1])
    })

    it('429 for an account’s third concurrent form with a file if the limit is two; a form without files needs no slot', async () => {
      const started = Promise.withResolvers<void>()
      const released = Promise.withResolvers<void>()
      let waiting = 0
      const slow = () => {
        const payload = form(['scan', pdf()])
        return Readable.from(
          (async function* () {
            yield payload.subarray(0, -100)
            if (++waiting === 2) started.resolve()
            await released.promise
            yield payload.subarray(-100)
          })(),
        )
      }
      const open = [send('POST', '/v2/cards', slow()), send('POST', '/v2/cards', slow())]
      await started.promise
      while ((await uploads()).length < 2) await turn()
      assert.equal((await send('POST', '/v2/cards', form(['scan', pdf()]))).statusCode, 429)
      assert.equal((await send('POST', '/v2/cards', form(['json', { text: 'a' }]))).statusCode, 201)
      released.resolve()
      for (const answer of await Promise.all(open)) assert.equal(answer.statusCode, 201, answer.body)
    })

    it('leaves no file and frees the slot if the client disconnects while sending a file', async () => {
      const before = await settled()
      await service.app.listen({ port: 0, host: '127.0.0.1' })
      const { port } = service.app.server.address() as AddressInfo
      const headers = { ...formHeaders, authorization: `Bearer ${token(scopes)}`, 'x-forwarded-proto': 'https' }
      const started = form(['json', { text: 'a' }], ['scan', pdf(300_000)]).subarray(0, -1_000)
      for (let round = 0; round < 3; round++) {
        const request = httpRequest({ host: '127.0.0.1', port, path: '/v2/cards', method: 'POST', headers })
        request.on('error', () => {})
        request.write(started)
        while ((await uploads()).length === 0) await turn()
        request.destroy()
        while ((await uploads()).length > 0) await turn()
      }
      assert.equal(await settled(), before)
      assert.equal((await send('POST', '/v2/cards', form(['scan', pdf()]))).statusCode, 201)
    })

    it('documents the form with its parts and their types', async () => {
      const { paths } = (await service.send({ url: '/v2/openapi.json' })).json()
      const { content } = paths['/invoices'].post.requestBody
      const { schema, encoding } = content['multipart/form-data']
      assert.deepEqual(Object.keys(schema.properties), ['json', 'scan', 'photo'])
      assert.deepEqual(schema.properties.json, content['application/json'].schema)
      assert.deepEqual(schema.required, ['json'])
      assert.deepEqual(encoding, {
        json: { contentType: 'application/json' },
        scan: { contentType: 'application/pdf, text/plain' },
        photo: { contentType: 'image/png' },
      })
      const patch = paths['/invoices/{id}'].patch.requestBody.content['multipart/form-data']
      assert.equal(patch.schema.required, undefined)
      assert.equal(patch.encoding.json.contentType, 'application/merge-patch+json, application/json')
    })
  })
})
