import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { products } from '../../src/catalog/products.ts'
import { service } from '../../src/definition/service.ts'
import { type ReportKind, readOf } from '../../src/reports/report-types.ts'
import { collection } from '../../src/resources/collection.ts'
import { Title } from '../../src/resources/field-types.ts'
import { openSnapshot } from '../../src/storage/open.ts'
import { appOn, type TestApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ title: Title, secret: Type.Optional(Type.String()) }),
  scopes: { 'notes:read:full': 'See notes with their secrets' },
  hides: { fields: ['secret'], unless: ({ scopes }) => scopes.has('notes:read:full') },
})

/** A report type that counts the notes, in addition to the report types of the resources. */
const totals: ReportKind = {
  ...{ name: 'totals', scope: 'notes:read', from: '(select count(*) as notes from resource_notes) as totals' },
  columns: [{ name: 'notes', type: 'integer', sql: 'notes' }],
  key: ['notes'],
}

const definition = service({
  resources: [products, notes],
  versions: { v1: [products], v2: [products, notes] },
  reports: [totals],
})
const scopes = 'notes:read notes:write products:write reports:read reports:write'

forEachEngine((engine) => {
  describe('a definition with several versions', () => {
    const app = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => app.send({ scopes, ...request })

    it('201 under the prefix of a version that has the resource, 404 under the others', async () => {
      const note = { method: 'POST', payload: { title: 'T', secret: 's' } } as const
      const created = await send({ ...note, url: '/v2/notes' })
      assert.deepEqual([created.statusCode, created.headers.location], [201, `/v2/notes/${created.json().id}`])
      for (const url of ['/notes', '/v1/notes', '/v3/notes'])
        assert.equal((await send({ ...note, url })).statusCode, 404)
    })

    it('200 with the same row under each prefix for a resource in all versions', async () => {
      const { id } = (await send({ method: 'POST', url: '/products', payload: { name: 'P', price: 1 } })).json()
      for (const prefix of ['', '/v1', '/v2']) {
        assert.equal((await send({ url: `${prefix}/products/${id}` })).json().name, 'P', prefix)
      }
    })

    it('200 with the hidden field only for callers with notes:read:full, and not in lists (T-API-04)', async () => {
      const full = `${scopes} notes:read:full`
      const { items } = (await send({ url: '/v2/notes', scopes: full })).json()
      const [{ id, secret }] = items
      assert.equal(secret, undefined)
      assert.equal((await send({ url: `/v2/notes/${id}` })).json().secret, undefined)
      assert.equal((await send({ url: `/v2/notes/${id}`, scopes: full })).json().secret, 's')
    })

    it('lists declared and built-in report types; 403 for requesting a declared report without its scope', async () => {
      const types = (await send({ url: '/api/report-types' })).json()
      assert.deepEqual(
        types.map(({ reportType }: { reportType: string }) => reportType),
        ['products', 'notes', 'totals', 'activity', 'deliveries'],
      )
      const ask = { method: 'POST', url: '/api/reports', payload: { reportType: 'totals', format: 'csv' } } as const
      assert.equal((await send({ ...ask, scopes: 'reports:write' })).statusCode, 403)
      assert.equal((await send(ask)).statusCode, 202)
      const snapshot = await openSnapshot(app.db.url)
      const read = readOf(app.db, totals, {}, { clientId: '', subject: '', isAdmin: false })
      assert.deepEqual(await Array.fromAsync(snapshot.pages(read)), [[[1]]])
      await snapshot.close()
    })

    it('documents each version in its own document, with unique operationIds', async () => {
      const served = { '/openapi.json': false, '/v1/openapi.json': false, '/v2/openapi.json': true }
      for (const [url, hasNotes] of Object.entries(served)) {
        const { paths, webhooks } = (await send({ url })).json()
        assert.ok(paths['/products'], url)
        assert.deepEqual(['/notes' in paths, '/v2/notes' in paths], [hasNotes, false], url)
        const ids = Object.values<Record<string, { operationId?: string }>>(paths)
          .flatMap((item) => Object.values(item).map(({ operationId }) => operationId))
          .filter(Boolean)
        assert.equal(new Set(ids).size, ids.length)
        assert.ok(webhooks['note.created'] && webhooks['product.deleted'])
      }
      assert.equal((await send({ url: '/v3/openapi.json' })).statusCode, 404)
    })
  })
})
