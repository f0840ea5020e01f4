import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import type { TObject } from 'typebox'
import { removeUnusedFiles } from '../../../src/files/remove-unused.ts'
import { collection, File, Line, service, Type } from '../../../src/plinth.ts'
import { migrateThoroughly } from '../../../src/storage/migrate-thoroughly.ts'
import { successiveAppsOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const scan = Type.Optional(File({ maxBytes: 10_000, types: ['application/pdf'] }))
const text = Line(1, 40)
const notes = <B extends TObject>(body: B, ids: 'integer' | 'uuid') =>
  service({ resources: [collection({ path: '/notes', noun: 'note', body, ids, keepDeleted: '30 days' })] })
const scopes = 'notes:read notes:write'
const pdf = () => Buffer.concat([Buffer.from('%PDF-1.7\n'), randomBytes(100)])

forEachEngine((engine) => {
  describe('the files of a removed field', () => {
    const { state, start } = successiveAppsOn(engine, { prefixes: [''] })
    type Definition = ReturnType<typeof notes>
    const send = (app: TestApp, method: 'POST' | 'PUT' | 'DELETE', url: string, payload?: object) =>
      app.send({
        ...{ method, url, scopes, ...(payload && { payload }) },
        ...(Buffer.isBuffer(payload) && { headers: { 'content-type': 'application/pdf' } }),
      })
    const added = async (app: TestApp, files: Readonly<Record<string, Buffer>>) => {
      const url = `/notes/${(await send(app, 'POST', '/notes', { text: 'a' })).json().id}`
      for (const [field, bytes] of Object.entries(files))
        assert.equal((await send(app, 'PUT', `${url}/${field}`, bytes)).statusCode, 201)
      return url
    }
    const removeUndeclared = (definition: Definition) =>
      migrateThoroughly(state.db, { tables: definition.tables, exclude: async () => () => {}, allowDataLoss: true })
    /** Runs the sweep at the current time, and returns the keys of the remaining files. */
    const swept = async ({ results, clock }: TestApp) => {
      const onError = (error: unknown) => assert.fail(String(error))
      await removeUnusedFiles({ db: state.db, store: results, now: () => clock.now, onError })
      return results.keys()
    }

    for (const ids of ['integer', 'uuid'] as const) {
      const both = notes(Type.Object({ text, scan, back: scan }), ids)
      const one = notes(Type.Object({ text, scan }), ids)
      const none = notes(Type.Object({ text }), ids)

      it(`are removed after plinth migrate --allow-data-loss, but other files stay (${ids} ids)`, async () => {
        const { service: app } = await start(both)
        const [shared, kept, deleted] = [pdf(), pdf(), pdf()]
        const url = await added(app, { scan: kept, back: pdf() })
        // The other field of this row has a file with the same content.
        await added(app, { scan: shared, back: shared })
        const gone = await added(app, { scan: deleted, back: pdf() })
        assert.equal((await send(app, 'DELETE', gone)).statusCode, 204)
        assert.equal((await swept(app)).length, 6)
        const lines = await removeUndeclared(one)
        assert.ok(lines.includes('-- remove 3 files of resource_notes from the result store'), lines.join('\n'))
        assert.equal((await swept(app)).length, 3)
        const { service: later } = await start(one)
        assert.deepEqual(
          await state.db.read.selectFrom('storedFiles').select('state').distinct().orderBy('state').execute(),
          [{ state: 'kept' }, { state: 'stored' }],
        )
        assert.equal((await later.send({ url, scopes })).json().scan.bytes, kept.length)
        assert.equal((await send(later, 'POST', `/api/deleted${gone}/restore`)).statusCode, 201)
        await removeUndeclared(none)
        assert.deepEqual(await swept(app), [])
      })
    }

    it('remain without --allow-data-loss, and the service refuses to start without the field', async () => {
      const both = notes(Type.Object({ text, scan, back: scan }), 'integer')
      const one = notes(Type.Object({ text, scan }), 'integer')
      const { service: app } = await start(both)
      const url = await added(app, { back: pdf() })
      await assert.rejects(start(one), /the field back is no longer declared/)
      assert.equal((await swept(app)).length, 1)
      const { service: again } = await start(both)
      assert.equal((await again.send({ url, scopes })).json().back.bytes, 109)
    })
  })
})
