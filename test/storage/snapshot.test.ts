import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { sql } from 'kysely'
import type { Database } from '../../src/storage/database.ts'
import { openSnapshot } from '../../src/storage/open.ts'
import { type LongRead, type LongReadOptions, longRead } from '../../src/storage/snapshots/long-read.ts'
import type { Snapshot } from '../../src/storage/snapshots/snapshot.ts'
import { forEachEngine, onPostgres } from '../support/engines.ts'

const at = '2026-03-01T12:00:00.000Z'

forEachEngine((engine) => {
  describe('a snapshot', () => {
    let db: Database
    let open: Snapshot[]

    beforeEach(async () => {
      db = await engine.database()
      open = []
    })
    afterEach(async () => {
      for (const snapshot of open) await snapshot.close()
      await db.close()
    })

    const snapshotOf = async () => {
      const snapshot = await openSnapshot(db.url)
      open.push(snapshot)
      return snapshot
    }

    async function add(rows: [name: string, price: number][]): Promise<void> {
      const values = rows.map(([name, price]) => ({
        ...{ name, nameKey: name.toLowerCase(), price, revision: 1 },
        ...{ createdAt: at, updatedAt: at },
      }))
      for (let from = 0; from < values.length; from += 1_000) {
        await db.write((tx) =>
          tx
            .insertInto('products')
            .values(values.slice(from, from + 1_000))
            .execute(),
        )
      }
    }

    const products = (changes: Partial<LongReadOptions> = {}): LongRead =>
      longRead(db, {
        cells: [
          { term: sql.ref('id'), type: 'integer' },
          { term: sql.ref('name'), type: 'string' },
          { term: sql.ref('price'), type: 'number' },
        ],
        from: sql.table('products'),
        where: [],
        order: [{ term: sql.ref('id'), descending: false, cell: 0 }],
        ...changes,
      })

    async function rowsOf(snapshot: Snapshot, read: LongRead): Promise<unknown[][]> {
      const rows: unknown[][] = []
      for await (const page of snapshot.pages(read)) {
        assert.ok(page.length > 0)
        rows.push(...page.map((row) => row.slice(0, read.types.length)))
      }
      return rows
    }

    it('yields no pages if there are no rows', async () => {
      const snapshot = await snapshotOf()
      assert.equal(await snapshot.count(products()), 0)
      assert.deepEqual(await rowsOf(snapshot, products()), [])
    })

    for (const count of [999, 1_000, 1_001, 3_000]) {
      it(`reads each of ${count} rows once, in order`, async () => {
        await add(Array.from({ length: count }, (_, n) => [`p${n}`, n / 4]))
        const snapshot = await snapshotOf()
        assert.equal(await snapshot.count(products()), count)
        const rows = await rowsOf(snapshot, products())
        assert.deepEqual(
          rows,
          Array.from({ length: count }, (_, n) => [n + 1, `p${n}`, n / 4]),
        )
      })
    }

    it('shows a single point in time while other connections write', async () => {
      await add(Array.from({ length: 2_500 }, (_, n) => [`p${n}`, n]))
      const snapshot = await snapshotOf()
      assert.equal(await snapshot.count(products()), 2_500)
      await add([['late', 1]])
      await db.write((tx) => tx.updateTable('products').set({ name: 'changed' }).where('id', '=', 2_400).execute())
      await db.write((tx) => tx.deleteFrom('products').where('id', '=', 3).execute())
      const rows = await rowsOf(snapshot, products())
      assert.deepEqual([rows.length, rows[2]?.[1], rows[2_399]?.[1]], [2_500, 'p2', 'p2399'])
    })

    it('reads any text as stored, and null as null', async () => {
      const names = [
        'tab\there',
        'line\nfeed',
        'cr\r',
        'back\\slash',
        '\\N',
        '\\\\N',
        'é€𝄞',
        '',
        "'; drop table products;--",
      ]
      await add(names.map((name) => [name, 0.1]))
      await db.write((tx) =>
        tx
          .insertInto('books')
          .values({ title: 't', titleKey: 't', author: 'a', authorKey: 'a', revision: 1, createdAt: at, updatedAt: at })
          .execute(),
      )
      const snapshot = await snapshotOf()
      assert.deepEqual(
        (await rowsOf(snapshot, products())).map(([, name, price]) => [name, price]),
        names.map((name) => [name, 0.1]),
      )
      const books = products({ cells: [{ term: sql.ref('genre'), type: 'string' }], from: sql.table('books') })
      assert.deepEqual(await rowsOf(await snapshotOf(), { ...books, keyAt: [1] }), [[null]])
    })

    it('never treats values as SQL (T-API-05)', async () => {
      const hostile = "x' or 1=1 --"
      await add([
        ['a', 1],
        [hostile, 2],
        ['c', 3],
      ])
      const named = products({ where: [sql`name = ${hostile}`, sql`price >= ${1.5}`] })
      const snapshot = await snapshotOf()
      assert.equal(await snapshot.count(named), 1)
      assert.deepEqual(await rowsOf(snapshot, named), [[2, hostile, 2]])
    })

    it('sorts rows by several fields across pages, even in different directions', async () => {
      await add(Array.from({ length: 2_300 }, (_, n) => [`p${n}`, n % 7]))
      const mixed = products({
        order: [
          { term: sql.ref('price'), descending: true },
          { term: sql.ref('id'), descending: false, cell: 0 },
        ],
      })
      const rows = await rowsOf(await snapshotOf(), mixed)
      const expected = Array.from({ length: 2_300 }, (_, n) => [n + 1, `p${n}`, n % 7] as const)
      assert.deepEqual(
        rows,
        expected.toSorted((a, b) => b[2] - a[2] || a[0] - b[0]),
      )
    })

    it('does not block writers, and is read-only', async () => {
      await add(Array.from({ length: 1_500 }, (_, n) => [`p${n}`, n]))
      const snapshot = await snapshotOf()
      const pages = snapshot.pages(products())[Symbol.asyncIterator]()
      await pages.next()
      await Promise.all(Array.from({ length: 20 }, (_, n) => add([[`during${n}`, 1]])))
      const writing = { ...products(), count: { sql: 'delete from products returning 1', values: [] } }
      await assert.rejects((await snapshotOf()).count(writing))
      assert.equal((await db.read.selectFrom('products').select('id').execute()).length, 1_520)
    })

    it('can be closed between two pages', async () => {
      await add(Array.from({ length: 5_000 }, (_, n) => [`p${n}`, n]))
      const snapshot = await openSnapshot(db.url)
      for await (const page of snapshot.pages(products())) {
        assert.equal(page[0]?.[0], 1)
        break
      }
      await snapshot.close()
    })
  })
})

onPostgres((engine) => {
  describe('a snapshot whose connection breaks', () => {
    it('rejects the read without crashing the process (F-PG-02)', async () => {
      const db = await engine.database()
      const snapshot = await openSnapshot(db.url)
      const endless = longRead(db, {
        cells: [{ term: sql.raw('n'), type: 'integer' }],
        from: sql.raw('generate_series(1, 5000000) as n'),
        where: [],
        order: [{ term: sql.raw('n'), descending: false, cell: 0 }],
      })
      const reading = (async () => {
        for await (const _ of snapshot.pages(endless)) {
          await sql`select pg_terminate_backend(pid) from pg_stat_activity
            where application_name = 'plinth-report' and datname = current_database()`.execute(db.read)
        }
      })()
      await assert.rejects(reading, /terminat|Connection/)
      await snapshot.close()
      await db.close()
    })
  })
})
