import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { TObject } from 'typebox'
import { collection, Decimal, Line, service, Type } from '../../../src/plinth.ts'
import type { ResourceOptions } from '../../../src/resources/resource-options.ts'
import { migrateThoroughly } from '../../../src/storage/migrate-thoroughly.ts'
import { successiveAppsOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const notes = <B extends TObject>(body: B, more: Partial<ResourceOptions<B>> = {}) =>
  service({ resources: [collection({ path: '/notes', noun: 'note', body, keepDeleted: '30 days', ...more })] })

const scopes = 'notes:read notes:write'
const total = Type.Number()
const code = Type.Optional(Line(1, 20))
const earlier = notes(Type.Object({ number: Line(1, 20), total, code }))
const renamed = notes(Type.Object({ reference: Line(1, 20), total, code }), {
  migrate: { renamed: { reference: 'number' } },
})

forEachEngine((engine) => {
  describe('restoring a deleted row after its declaration has changed', () => {
    const { state, start } = successiveAppsOn(engine, { prefixes: [''] })

    /** Creates and deletes a note under the earlier declaration; returns the path for restoring it. */
    const deleted = async () => {
      const { service: app } = await start(earlier)
      const payload = { number: 'A-1', total: 24.5, code: 'x' }
      const { id } = (await app.send({ method: 'POST', url: '/notes', scopes, payload })).json()
      assert.equal((await app.send({ method: 'DELETE', url: `/notes/${id}`, scopes })).statusCode, 204)
      return `/api/deleted/notes/${id}/restore`
    }
    const listed = async (app: TestApp) => (await app.send({ url: '/api/deleted/notes', scopes })).json()
    const restored = (app: TestApp, url: string) => app.send({ method: 'POST', url, scopes })
    const thoroughly = (definition: typeof earlier, options: object) =>
      migrateThoroughly(state.db, { tables: definition.tables, exclude: async () => () => {}, ...options })

    it('201 with the value of a renamed field, before and after its column is renamed', async () => {
      for (const isTidy of [false, true]) {
        const url = await deleted()
        const { service: app } = await start(renamed)
        if (isTidy) await thoroughly(renamed, { tidy: true })
        const { service: later } = isTidy ? await start(renamed) : { service: app }
        assert.equal((await listed(later))[0].resource.reference, 'A-1')
        const answer = await restored(later, url)
        assert.equal(answer.statusCode, 201, answer.body)
        assert.deepEqual([answer.json().reference, answer.json().total], ['A-1', 24.5])
        if (!isTidy) await later.send({ method: 'DELETE', url: '/notes/1', scopes })
        if (!isTidy) await state.db.write((tx) => tx.deleteFrom('deletedRows').execute())
      }
    })

    it('201 without the value of an optional field that was removed', async () => {
      const url = await deleted()
      const fewer = notes(Type.Object({ number: Line(1, 20), total }))
      await thoroughly(fewer, { allowDataLoss: true })
      const { service: app } = await start(fewer)
      const answer = await restored(app, url)
      assert.deepEqual([answer.statusCode, answer.json().code], [201, undefined])
    })

    it('422 naming a field whose type has changed; the list shows the row without that field', async () => {
      const url = await deleted()
      const converted = notes(Type.Object({ number: Line(1, 20), total: Decimal(9, 2), code }), {
        migrate: { convert: { total: (old: number) => old.toFixed(2) } },
      } as never)
      await thoroughly(converted, {})
      const { service: app } = await start(converted)
      const [{ resource }] = await listed(app)
      assert.deepEqual([resource.number, resource.total], ['A-1', undefined])
      const answer = await restored(app, url)
      assert.deepEqual([answer.statusCode, answer.json().errors[0].field], [422, 'total'])
      assert.equal((await listed(app)).length, 1)
    })

    it('422 naming a newly required field; 201 once it has a default', async () => {
      const url = await deleted()
      const added = Type.Object({ number: Line(1, 20), total, code, kind: Type.Enum(['a', 'b']) })
      const { service: app } = await start(notes(added))
      const answer = await restored(app, url)
      assert.deepEqual([answer.statusCode, answer.json().errors[0].field], [422, 'kind'])
      const defaulted = Type.Object({ ...added.properties, kind: Type.Enum(['a', 'b'], { default: 'a' }) })
      const { service: later } = await start(notes(defaulted))
      const second = await restored(later, url)
      assert.deepEqual([second.statusCode, second.json().kind], [201, 'a'])
    })

    it('422 if the restored row would break a new rule', async () => {
      const url = await deleted()
      const ruled = notes(Type.Object({ number: Line(1, 20), total, code }), {
        rules: [
          { field: 'total', message: 'must be at most 10', holds: (body: { total: number }) => body.total <= 10 },
        ],
      } as never)
      const { service: app } = await start(ruled)
      const answer = await restored(app, url)
      assert.deepEqual([answer.statusCode, answer.json().errors[0].field], [422, 'total'])
    })

    it('404 once `keepDeleted` is removed; dropping the table removes its deleted rows', async () => {
      const url = await deleted()
      const body = Type.Object({ number: Line(1, 20), total, code })
      const { service: app } = await start(service({ resources: [collection({ path: '/notes', noun: 'note', body })] }))
      assert.equal((await restored(app, url)).statusCode, 404)
      const others = service({ resources: [collection({ path: '/others', noun: 'other', body })] })
      await thoroughly(others, { allowDataLoss: true })
      assert.deepEqual(await state.db.read.selectFrom('deletedRows').selectAll().execute(), [])
    })
  })
})
