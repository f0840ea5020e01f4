import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { Database } from '../../src/storage/database.ts'
import type { RowId } from '../../src/storage/ids.ts'
import type { RowPrecondition } from '../../src/storage/rows/precondition.ts'
import { type Rows, rowsOf } from '../../src/storage/rows/rows.ts'
import { forEachEngine } from '../support/engines.ts'

const created = '2026-03-01T12:00:00.000Z'
const changed = '2026-03-01T12:00:05.000Z'

forEachEngine((engine) => {
  describe('the update of a row', () => {
    let db: Database
    let rows: Rows
    let id: RowId
    before(async () => {
      db = await engine.database()
      rows = rowsOf(db, { table: 'products', fields: ['name', 'price'], folded: ['name'] })
    })
    after(() => db.close())
    beforeEach(async () => {
      const { row } = await db.write((tx) => rows.insert(tx, { name: 'Lamp', price: 1 }, created))
      id = row.id
    })

    const update = (values: object, precondition: RowPrecondition = {}, now = changed) =>
      db.write((tx) => rows.update(tx, id, values, precondition, now))

    it('changes only the given fields, and increments the revision', async () => {
      await update({ price: 2 })
      const updated = await update({ name: 'LAMP', price: undefined })
      const expected = {
        id,
        name: 'LAMP',
        price: 2,
        revision: 3,
        sharesSecond: 1,
        createdAt: created,
        updatedAt: changed,
      }
      assert.deepEqual({ ...updated?.row }, expected)
      assert.deepEqual({ ...(await rows.find(id)) }, expected)
    })

    it('records whether the previous change was in the same second', async () => {
      const shares = async (now: string) => (await update({ price: 2 }, {}, now))?.row.sharesSecond
      assert.deepEqual([await shares('2026-03-01T12:00:00.999Z'), await shares('2026-03-01T12:00:01.000Z')], [1, 0])
    })

    for (const [name, precondition] of Object.entries<RowPrecondition>({
      'an allowed revision': { matches: [1, 3] },
      'a revision that is not excluded': { differs: [2] },
      'an allowed date': { unmodifiedSince: created },
    })) {
      it(`changes a row with ${name}, but only once`, async () => {
        assert.equal((await update({ price: 2 }, precondition))?.row.price, 2)
        assert.equal(await update({ price: 3 }, precondition), undefined)
      })
    }

    it('changes a row again if any revision is allowed', async () => {
      for (const price of [2, 3]) assert.equal((await update({ price }, { matches: 'any' }))?.row.price, price)
    })

    it('changes no row if no revision is allowed or the id does not exist', async () => {
      assert.equal(await update({ price: 2 }, { matches: [] }), undefined)
      id = 2_147_483_648
      assert.equal(await update({ price: 2 }), undefined)
    })

    it('accepts revision lists of 60 different lengths', async () => {
      for (let length = 1; length <= 60; length++) {
        const matches = Array.from({ length }, (_, at) => length - at)
        assert.equal((await update({ price: length }, { matches }))?.row.price, length)
      }
    })
  })
})
