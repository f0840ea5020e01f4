import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Type } from 'typebox'
import { Line } from '../../src/http/text-rules.ts'
import { collection } from '../../src/resources/collection.ts'
import { Decimal } from '../../src/resources/decimal-fields.ts'
import { codecsOf, tableOf } from '../../src/resources/table.ts'
import type { Database } from '../../src/storage/database.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { totalOrder } from '../../src/storage/rows/page-order.ts'
import type { Filter } from '../../src/storage/rows/page-query.ts'
import { type Row, rowsOf } from '../../src/storage/rows/rows.ts'
import { forEachEngine } from '../support/engines.ts'

const { declaration } = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ first: Line(1, 40), second: Line(1, 40), amount: Decimal(9, 2), ownerId: Type.Integer() }),
  filters: ['first', 'second', 'amount', 'ownerId'],
  search: ['first'],
})
const now = '2026-03-01T12:00:00.000Z'

forEachEngine((engine) => {
  describe('rows whose fields and columns have different names', () => {
    let db: Database
    before(async () => {
      db = await engine.database()
      await migrate(db, { tables: [tableOf(declaration)] })
    })
    after(() => db.close())

    const { amount } = codecsOf(declaration)
    const named = () =>
      rowsOf(db, {
        table: declaration.table,
        // The columns of `first` and `second` have swapped names: each is named like the other field.
        fields: ['second', 'first', 'total', 'customerId'],
        folded: ['second', 'first'],
        columns: { second: 'first', first: 'second', total: 'amount', customerId: 'owner_id' },
        ...(amount && { codecs: { total: amount } }),
      })
    const plain = () =>
      rowsOf(db, {
        ...{ table: declaration.table, fields: Object.keys(declaration.kinds), folded: declaration.folded },
        codecs: codecsOf(declaration),
      })
    const add = (values: Record<string, unknown>) => db.write((tx) => named().insert(tx, values, now))
    const requester = () => ({ account: 'a', signal: new AbortController().signal })
    const page = async (filters: Filter[], field: string, descending = false) => {
      const order = totalOrder([{ field, descending }])
      const query = { filters, order, after: null, backwards: false, limit: 10 }
      return (await named().page(query, requester as never)).map((row) => row.second)
    }

    it('are stored, changed and read by field name', async () => {
      const { row } = await add({ second: 'Zoe', first: 'Beta', total: '1.50', customerId: 7 })
      const { first, second, amount, ownerId } = (await plain().find(row.id)) as Row
      assert.deepEqual({ first, second, amount, ownerId }, { first: 'Zoe', second: 'Beta', amount: '1.50', ownerId: 7 })
      const changed = await db.write((tx) => named().update(tx, row.id, { second: 'Ada', total: '2.00' }, {}, now))
      assert.deepEqual(
        [changed?.row.second, changed?.row.first, changed?.row.total, changed?.row.customerId],
        ['Ada', 'Beta', '2.00', 7],
      )
      assert.deepEqual((await plain().find(row.id))?.first, 'Ada')
      const all = await db.write((tx) => named().updateAll(tx, [row.id], { customerId: 8 }, now))
      assert.deepEqual([all[0]?.row.customerId, all[0]?.row.second], [8, 'Ada'])
      assert.deepEqual(
        (await named().related('customerId', { ids: [8], idType: 'integer' }, 5)).map(({ second }) => second),
        ['Ada'],
      )
    })

    it('are filtered, sorted and searched by field name', async () => {
      await add({ second: 'Bob', first: 'Alpha', total: '10.00', customerId: 9 })
      assert.deepEqual(await page([], 'second'), ['Ada', 'Bob'])
      assert.deepEqual(await page([], 'first'), ['Bob', 'Ada'])
      assert.deepEqual(await page([], 'total', true), ['Bob', 'Ada'])
      assert.deepEqual(await page([{ field: 'first', op: '=', value: 'ALPHA' }], 'id'), ['Bob'])
      assert.deepEqual(await page([{ field: 'total', op: '>', value: '2.00' }], 'first'), ['Bob'])
      assert.deepEqual(await page([{ field: ['second'], op: 'contains', value: 'AD' }], 'id'), ['Ada'])
      const one: Filter[] = [{ field: 'customerId', op: '=', value: 9 }]
      assert.equal(await named().count({ filters: one }, requester as never), 1)
    })
  })
})
