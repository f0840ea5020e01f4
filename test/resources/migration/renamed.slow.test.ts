import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import { type TObject, Type } from 'typebox'
import { service } from '../../../src/definition/service.ts'
import { storedDefinition } from '../../../src/definition/stored.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { reportKinds } from '../../../src/mount-versions.ts'
import { checkReports } from '../../../src/reports/generate/check.ts'
import { tableReport } from '../../../src/reports/generate/table-report.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import { report } from '../../../src/resources/reports/report.ts'
import { reportOf } from '../../../src/resources/representation.ts'
import type { ResourceOptions } from '../../../src/resources/resource-options.ts'
import { successiveAppsOn } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const invoices = <B extends TObject>(body: B, more: Partial<ResourceOptions<B>> = {}) =>
  service({ resources: [collection({ path: '/invoices', noun: 'invoice', body, ...more })] })

const scopes = 'invoices:read invoices:write'
const total = Type.Integer()
const earlier = invoices(Type.Object({ number: Line(1, 20), dueOn: Type.String({ format: 'date' }), total }), {
  filters: ['number', 'total'],
  ranges: ['dueOn'],
  sorts: ['number', 'dueOn'],
  search: ['number'],
  unique: ['number'],
})
const body = Type.Object({
  reference: Line(1, 20),
  payableOn: Type.String({ format: 'date' }),
  total,
  currency: Type.Enum(['EUR', 'USD']),
})
const later = invoices(body, {
  filters: ['reference', 'total', 'currency'],
  ranges: ['payableOn'],
  sorts: ['reference', 'payableOn'],
  search: ['reference'],
  unique: ['reference'],
  migrate: { renamed: { reference: 'number', payableOn: 'dueOn' }, fill: { currency: 'EUR' } },
})

forEachEngine((engine) => {
  describe('a renamed field', () => {
    const { state, start } = successiveAppsOn(engine)

    it('keeps its column and all rows while a process with the earlier name continues to write', async () => {
      const { service: old } = await start(earlier)
      const post = (app: typeof old, payload: object) => app.send({ method: 'POST', url: '/invoices', scopes, payload })
      for (const number of ['A-1', 'B-2']) {
        assert.equal((await post(old, { number, dueOn: '2026-03-01', total: 5 })).statusCode, 201)
      }
      const stored = () =>
        sql.raw<Record<string, unknown>>(`select * from resource_invoices order by id -- ${Math.random()}`)
      const before = (await state.db.write((tx) => stored().execute(tx))).rows
      const { done, service: app } = await start(later)
      assert.deepEqual(
        done.map((line) => line.replace(/ /g, ' ')),
        [
          '-- rename number to reference, which keeps the column number; no row changes',
          '-- rename dueOn to payableOn, which keeps the column due_on; no row changes',
          `alter table "resource_invoices" add column "currency" text${engine.name === 'postgres' ? ' collate "C"' : ''} default 'EUR'`,
          'create index "resource_invoices_currency" on "resource_invoices" ("currency", "id")',
          '-- fill currency of resource_invoices in 2 rows, as the default of the column',
        ],
      )
      const after = (await state.db.write((tx) => stored().execute(tx))).rows
      assert.deepEqual(
        after,
        before.map((row) => ({ ...row, currency: 'EUR' })),
      )

      // Both processes write the same column.
      assert.equal((await post(old, { number: 'C-3', dueOn: '2026-03-02', total: 7 })).statusCode, 201)
      const sent = { reference: 'D-4', payableOn: '2026-02-01', total: 1, currency: 'USD' }
      const created = await post(app, sent)
      assert.deepEqual([created.statusCode, created.json().reference], [201, 'D-4'])
      const list = async (service: typeof app, query: string) =>
        (await service.send({ url: `/invoices?${query}`, scopes }))
          .json()
          .map((row: Record<string, unknown>) => row.reference ?? row.number)
      assert.deepEqual(await list(app, 'sort=-reference'), ['D-4', 'C-3', 'B-2', 'A-1'])
      assert.deepEqual(await list(app, 'sort=payableOn'), ['D-4', 'A-1', 'B-2', 'C-3'])
      assert.deepEqual(await list(app, 'sort=payableOn&limit=2'), ['D-4', 'A-1'])
      assert.deepEqual(await list(app, 'reference=c-3'), ['C-3'])
      assert.deepEqual(await list(app, 'reference[prefix]=a&currency[not]=USD'), ['A-1'])
      assert.deepEqual(await list(app, 'payableOn[after]=2026-03-01'), ['C-3'])
      assert.deepEqual(await list(app, 'q=4'), ['D-4'])
      assert.deepEqual(await list(app, 'currency=EUR'), ['A-1', 'B-2', 'C-3'])
      assert.deepEqual(await list(old, 'sort=-number&q=-'), ['D-4', 'C-3', 'B-2', 'A-1'])
      const duplicate = await post(app, { ...sent, reference: 'c-3' })
      assert.deepEqual([duplicate.statusCode, duplicate.json().errors[0].field], [409, 'reference'])
      const patched = await app.send({ method: 'PATCH', url: '/invoices/3', scopes, payload: { reference: 'C-33' } })
      assert.deepEqual([patched.statusCode, patched.json().reference, patched.json().currency], [200, 'C-33', 'EUR'])
      assert.equal((await old.send({ url: '/invoices/3', scopes })).json().number, 'C-33')
      assert.deepEqual((await start(later)).done, [])
    })

    it('can be used under its new name in access rules, locks, unique tuples, references and reports', async () => {
      const owners = collection({ path: '/owners', noun: 'owner', body: Type.Object({ name: Line(1, 20) }) })
      const ruled = { path: '/notes', noun: 'note' } as const
      const lines = { path: '/lines', noun: 'line' } as const
      const entries = { path: '/entries', noun: 'entry' } as const
      const oldNotes = collection({
        ...{ ...ruled, body: Type.Object({ firm: Line(1, 20), state: Line(1, 20), text: Line(1, 20) }) },
      })
      const notes = collection({
        ...{ ...ruled, body: Type.Object({ company: Line(1, 20), status: Line(1, 20), text: Line(1, 20) }) },
        sorts: ['status'],
        access: () => ({ company: 'north' }),
        locked: { status: 'done' },
        migrate: { renamed: { company: 'firm', status: 'state' } },
      })
      const old = service({
        resources: [
          owners,
          oldNotes,
          collection({
            ...{ ...lines, body: Type.Object({ holderId: Ref(owners, { onDelete: 'cascade' }), sum: Decimal(9, 2) }) },
            ...{ unique: [['holderId', 'sum']], filters: ['sum'] },
          }),
          collection({ ...entries, body: Type.Object({ docId: Ref(oldNotes), text: Line(1, 20) }) }),
        ],
      })
      const current = service({
        resources: [
          owners,
          notes,
          collection({
            ...{
              ...lines,
              body: Type.Object({ ownerId: Ref(owners, { onDelete: 'cascade' }), amount: Decimal(9, 2) }),
            },
            ...{ unique: [['ownerId', 'amount']], filters: ['amount'], sorts: ['amount'] },
            migrate: { renamed: { ownerId: 'holderId', amount: 'sum' } },
          }),
          collection({
            ...{ ...entries, body: Type.Object({ noteId: Ref(notes), text: Line(1, 20) }) },
            locked: { note: { status: 'done' } },
            migrate: { renamed: { noteId: 'docId' } },
          }),
        ],
      })
      const scopes = Object.keys(current.scopes).join(' ')
      const { service: before } = await start(old)
      const post = async (app: typeof before, url: string, payload: object) =>
        (await app.send({ method: 'POST', url, scopes, payload })).statusCode
      assert.equal(await post(before, '/owners', { name: 'Ada' }), 201)
      for (const [firm, state] of [
        ['north', 'open'],
        ['south', 'open'],
        ['north', 'done'],
      ]) {
        assert.equal(await post(before, '/notes', { firm, state, text: 'T' }), 201)
      }
      assert.equal(await post(before, '/lines', { holderId: 1, sum: '2.50' }), 201)
      for (const docId of [1, 2, 3]) assert.equal(await post(before, '/entries', { docId, text: 'E' }), 201)
      const { service: app } = await start(current)
      const get = async (url: string) => {
        const answer = await app.send({ url, scopes })
        return answer.statusCode === 200 ? answer.json() : answer.statusCode
      }
      const ids = (rows: { id: number }[]) => rows.map(({ id }) => id)
      assert.deepEqual(ids(await get('/notes')), [1, 3])
      assert.equal(await get('/notes/2'), 404)
      assert.equal(await post(app, '/notes', { company: 'south', status: 'open', text: 'T' }), 403)
      const patch = async (url: string, payload: object) =>
        (await app.send({ method: 'PATCH', url, scopes, payload })).statusCode
      assert.deepEqual([await patch('/notes/1', { text: 'U' }), await patch('/notes/3', { text: 'U' })], [200, 409])
      assert.equal(await patch('/notes/1', { company: 'south' }), 403)
      assert.deepEqual([await patch('/entries/1', { text: 'U' }), await patch('/entries/3', { text: 'U' })], [200, 409])
      assert.deepEqual(ids(await get('/entries?sort=-note.status')), [1, 3, 2])
      assert.deepEqual(ids(await get('/entries?sort=note.status&limit=3')), [3, 1, 2])

      const [line] = await get('/lines?amount=2.5&expand=owner&sort=-amount')
      assert.deepEqual([line.amount, line.ownerId, line.owner.name], ['2.50', 1, 'Ada'])
      assert.deepEqual(ids(await get('/owners/1/lines?amount[from]=2')), [1])
      assert.deepEqual((await get('/owners/1?expand=lines')).lines[0].amount, '2.50')
      const duplicate = await app.send({ method: 'POST', url: '/lines', scopes, payload: { ownerId: 1, amount: 2.5 } })
      assert.deepEqual(
        duplicate.json().errors.map(({ field }: { field: string }) => field),
        ['ownerId', 'amount'],
      )
      assert.equal(await patch('/lines/1', { ownerId: 9 }), 422)
      assert.equal(await patch('/lines/1', { amount: '3.25' }), 200)
      const { declaration } = (await storedDefinition(state.db.read, current))
        .collections[2] as (typeof current)['collections'][0]
      const report = tableReport(reportOf(declaration))
      await checkReports(state.db, [report])
      assert.deepEqual([report.sorts?.amount, report.columns[1]?.sql], ['"sum"', '"holder_id"'])
      assert.equal((await app.send({ method: 'DELETE', url: '/owners/1', scopes })).statusCode, 204)
      assert.deepEqual(await get('/lines'), [])
    })

    it('can be used under its new name in sums and in conditions on related rows', async () => {
      const build = (isCurrent: boolean) => {
        const names = isCurrent
          ? { tenant: 'tenant', owner: 'keeperId', sum: 'amount' }
          : { tenant: 'firm', owner: 'ownerId', sum: 'cost' }
        const owners = collection({
          path: '/owners',
          noun: 'owner',
          body: Type.Object({ [names.tenant]: Line(1, 20) }),
          ...(isCurrent && { access: () => ({ tenant: 'north' }), migrate: { renamed: { tenant: 'firm' } } }),
          filters: [names.tenant],
          computed: { total: { sum: `lines.${names.sum}`, as: Decimal(12, 2) } },
        } as never)
        const lines = collection({
          path: '/lines',
          noun: 'line',
          body: Type.Object({ [names.owner]: Ref(owners), [names.sum]: Decimal(9, 2) }),
          ...(isCurrent && {
            access: { of: 'keeper' },
            migrate: { renamed: { keeperId: 'ownerId', amount: 'cost' } },
          }),
        } as never)
        return service({ resources: [owners, lines] })
      }
      const scopes = 'owners:read owners:write lines:read lines:write'
      const { service: before } = await start(build(false))
      const send = async (app: typeof before, method: 'GET' | 'POST', url: string, payload?: object) => {
        const answer = await app.send({ method, url, scopes, ...(payload && { payload }) })
        return answer.statusCode < 300 ? answer.json() : answer.statusCode
      }
      for (const firm of ['north', 'south']) await send(before, 'POST', '/owners', { firm })
      for (const ownerId of [1, 2]) await send(before, 'POST', '/lines', { ownerId, cost: '2.50' })
      const { service: app } = await start(build(true))
      assert.equal((await send(app, 'POST', '/lines', { keeperId: 1, amount: '1.25' })).amount, '1.25')
      assert.equal(await send(app, 'POST', '/lines', { keeperId: 2, amount: '1.25' }), 422)
      assert.deepEqual(
        (await send(app, 'GET', '/lines')).map(({ amount }: { amount: string }) => amount),
        ['2.50', '1.25'],
      )
      assert.equal((await send(app, 'GET', '/owners/1')).total, '3.75')
      assert.equal((await send(app, 'GET', '/lines?keeper.tenant=north')).length, 2)
      assert.equal(await send(app, 'GET', '/lines/2'), 404)
      await start(build(true))
      assert.equal((await send(app, 'GET', '/owners/1')).total, '3.75')
    })

    it('is read from its earlier column by typed reports', async () => {
      const lines = (field: string, migrate?: object) =>
        collection({
          path: '/lines',
          noun: 'line',
          body: Type.Object({ [field]: Decimal(9, 2) }),
          ...(migrate && { migrate }),
        } as never)
      await start(service({ resources: [lines('cost')] }))
      const current = lines('amount', { renamed: { amount: 'cost' } })
      const large = report(current as never, { name: 'large', where: () => ({ amount: { from: '2.00' } }) as never })
      const sums = report(current as never, { name: 'sums', show: { sum: { sum: 'amount' } as never } })
      const definition = service({ resources: [current], reports: [large, sums] })
      await start(definition)
      const kinds = reportKinds(await storedDefinition(state.db.read, definition))
      await checkReports(state.db, kinds as never)
      const found = kinds.find(({ name }) => name === 'large')
      assert.match(JSON.stringify(found?.columns), /\\"cost\\"/)
      assert.match(JSON.stringify(found?.typed?.matching({}, Date.now)), /"column":"cost"/)
      assert.match(JSON.stringify(kinds.find(({ name }) => name === 'sums')?.columns), /\\"cost\\"/)
    })
  })
})
