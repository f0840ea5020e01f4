import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { sql } from 'kysely'
import type { Database, PreparedStatement } from '../../src/storage/database.ts'
import { forEachEngine } from '../support/engines.ts'

interface Product {
  id: number
  name: string
  price: number
}

forEachEngine((engine) => {
  let db: Database
  before(async () => {
    db = await engine.database()
  })
  beforeEach(() => db.write((tx) => tx.deleteFrom('products').execute()))
  after(() => db.close())

  const instant = '2026-01-01T00:00:00.000Z'
  const row = (name: string, price: number) => ({
    name,
    nameKey: name,
    price,
    revision: 1,
    createdAt: instant,
    updatedAt: instant,
  })
  const add = (...names: string[]) =>
    db.write((tx) =>
      tx
        .insertInto('products')
        .values(names.map((name, at) => row(name, at)))
        .execute(),
    )
  const names = (rows: { name: string }[]) => rows.map(({ name }) => name)

  describe('a write unit', () => {
    it('is rolled back completely if it throws', async () => {
      const failing = db.write(async (tx) => {
        await tx.insertInto('products').values(row('a', 1)).execute()
        throw new Error('no')
      })
      await assert.rejects(failing, /^Error: no$/)
      assert.deepEqual(await db.read.selectFrom('products').select('name').execute(), [])
    })

    it('is invisible to other readers until it is committed', async () => {
      await db.write(async (tx) => {
        await tx.insertInto('products').values(row('a', 1)).execute()
        assert.equal((await tx.selectFrom('products').select('name').execute()).length, 1)
        assert.equal((await db.read.selectFrom('products').select('name').execute()).length, 0)
      })
      assert.equal((await db.read.selectFrom('products').select('name').execute()).length, 1)
    })

    it('completes even if 500 units run concurrently', async () => {
      await Promise.all(Array.from({ length: 500 }, (_, at) => add(`P${at}`)))
      const count = db.read.selectFrom('products').select((products) => products.fn.countAll<number>().as('count'))
      assert.equal(Number((await count.executeTakeFirstOrThrow()).count), 500)
    })
  })

  describe('prepare', () => {
    const byName = () =>
      db.prepare<Product>(db.read.selectFrom('products').select(['id', 'name', 'price']).where('name', '=', ''))
    const all = async <Row>(prepared: PreparedStatement<Row>, values: unknown[]) => prepared.all(values)

    it('runs the same statement with different values', async () => {
      await add('a', 'b')
      const prepared = byName()
      assert.deepEqual(names(await all(prepared, ['a'])), ['a'])
      assert.deepEqual(names(await all(prepared, ['b'])), ['b'])
      assert.deepEqual(await all(prepared, ["' or 1=1 --"]), [])
    })

    it('keeps the results of concurrent statements separate', async () => {
      await add('a', 'b')
      const byPrice = db.prepare<Product>(db.read.selectFrom('products').select('name').where('price', '>=', 0))
      const prepared = byName()
      const found = await Promise.all(
        Array.from({ length: 40 }, (_, at) => (at % 2 ? all(prepared, ['b']) : all(byPrice, [0]))),
      )
      for (const [at, rows] of found.entries()) assert.equal(rows.length, at % 2 ? 1 : 2)
    })

    it('reads the uncommitted rows of a write unit with `in`, but not with `all`', async () => {
      const prepared = byName()
      await db.write(async (tx) => {
        await tx.insertInto('products').values(row('a', 1)).execute()
        assert.deepEqual(names((await prepared.in(tx, ['a'])).rows), ['a'])
        assert.deepEqual(await all(prepared, ['a']), [])
      })
    })

    it('returns the number of rows that a statement changes in a unit; the changes are rolled back with the unit', async () => {
      await add('a', 'b', 'c')
      const reprice = db.prepare(db.read.updateTable('products').set({ price: 0 }).where('price', '>=', 0))
      const returning = db.prepare<Product>(db.read.deleteFrom('products').where('name', '=', '').returning('name'))
      const failing = db.write(async (tx) => {
        assert.equal((await reprice.in(tx, [9, 1])).changed, 2)
        assert.equal((await reprice.in(tx, [9, 100])).changed, 0)
        const gone = await returning.in(tx, ['c'])
        assert.deepEqual([names(gone.rows), gone.changed], [['c'], 1])
        throw new Error('undo')
      })
      await assert.rejects(failing, /undo/)
      const rows = await db.read.selectFrom('products').select(['name', 'price']).orderBy('name').execute()
      assert.deepEqual(rows, [
        { name: 'a', price: 0 },
        { name: 'b', price: 1 },
        { name: 'c', price: 2 },
      ])
    })

    it('rejects undefined, like null, for a column that is not nullable', async () => {
      const settings = db.read.insertInto('settings').values({ name: '', value: '' })
      for (const value of [undefined, null]) {
        await assert.rejects(
          db.write((tx) => db.prepare(settings).in(tx, ['null', value])),
          /not[- ]null constraint/i,
        )
      }
      assert.deepEqual(await db.read.selectFrom('settings').selectAll().where('name', '=', 'null').execute(), [])
    })
  })

  describe('ping', () => {
    it('resolves while the database responds, and rejects once it is closed', async () => {
      const closing = await engine.database()
      await closing.ping()
      await closing.close()
      await assert.rejects(closing.ping())
    })
  })

  describe('values', () => {
    it('are read back unchanged if they are numbers, text or null', async () => {
      for (const price of [0, 0.1, 0.29, 999_999_999.99, 1e-7]) {
        await db.write((tx) => tx.insertInto('products').values(row('n', price)).execute())
        const found = await db.read.selectFrom('products').select('price').where('price', '=', price).executeTakeFirst()
        assert.equal(found?.price, price)
      }
      const { id } = await db.write((tx) =>
        tx
          .insertInto('books')
          .values({ ...book, title: '🖋 "\\\u0001' })
          .returning('id')
          .executeTakeFirstOrThrow(),
      )
      const found = await db.read.selectFrom('books').select(['title', 'genre']).where('id', '=', id).executeTakeFirst()
      assert.deepEqual({ ...found }, { title: '🖋 "\\\u0001', genre: null })
    })

    it('returned by count(*) are numbers', async () => {
      const { rows } = await sql<{ count: number }>`select count(*) as count from products`.execute(db.read)
      assert.equal(rows[0]?.count, 0)
    })
  })

  const book = {
    title: 't',
    titleKey: 't',
    author: 'a',
    authorKey: 'a',
    genre: null,
    genreKey: null,
    revision: 1,
    createdAt: instant,
    updatedAt: instant,
  }
})
