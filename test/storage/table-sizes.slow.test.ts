import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type RawBuilder, sql } from 'kysely'
import type { Database } from '../../src/storage/database.ts'
import { tableSizes, tableSizesInThread } from '../../src/storage/table-sizes.ts'
import { forEachEngine } from '../support/engines.ts'

forEachEngine((engine) => {
  describe('the sizes of tables', () => {
    let db: Database
    before(async () => {
      db = await engine.database()
      const text = engine.name === 'sqlite' ? sql`hex(zeroblob(n % 300))` : sql`repeat('0', (n % 300) * 2)`
      await fill('small', 10, text)
      await fill('medium', 20_000, text)
      await fill('large', 60_000, text)
      await fill('overflowing', 2_000, engine.name === 'sqlite' ? sql`hex(zeroblob(4000))` : sql`repeat('0', 8000)`)
    })
    after(() => db.close())

    const fill = (table: string, rows: number, text: RawBuilder<unknown>) =>
      db.write(async (tx) => {
        await sql`create table ${sql.table(table)} (id integer primary key, body text)`.execute(tx)
        await sql`create index ${sql.ref(`${table}_body`)} on ${sql.table(table)} (id, body)`.execute(tx)
        await sql`insert into ${sql.table(table)} with recursive s(n) as (
          select 1 union all select n + 1 from s where n < ${sql.lit(rows)}) select n, ${text} from s`.execute(tx)
      })
    const exactSize = async (table: string) => {
      const size =
        engine.name === 'sqlite'
          ? sql`(select sum(pgsize) from dbstat where name in (${table}, ${`${table}_body`}))`
          : sql`pg_total_relation_size(${sql.lit(table)})`
      const { rows } = await sql<{ bytes: number }>`select ${size} as bytes`.execute(db.read)
      return Number(rows[0]?.bytes)
    }

    it('include indexes, and are exact for small tables and within 10 % for large ones', async () => {
      const sizes = new Map((await tableSizes(db)).map(({ table, bytes }) => [table, bytes]))
      for (const table of ['small', 'medium', 'large', 'overflowing']) {
        const [size = 0, exact] = [sizes.get(table), await exactSize(table)]
        const tolerance = engine.name === 'postgres' || table === 'small' ? 0 : exact / 10
        assert.ok(Math.abs(size - exact) <= tolerance, `${table}: ${size} instead of ${exact}`)
      }
    })

    it('include row counts, which are exact for small tables and within 20 % for large ones', async () => {
      await db.write(async (tx) => {
        for (const statement of db.engine.statistics.gather) await sql.raw(statement).execute(tx)
      })
      const rows = new Map((await tableSizes(db)).map((size) => [size.table, size.rows]))
      for (const [table, exact] of [
        ['small', 10],
        ['medium', 20_000],
        ['large', 60_000],
        ['overflowing', 2_000],
      ] as const) {
        const found = rows.get(table) ?? 0
        const tolerance = table === 'small' ? 0 : exact / 5
        assert.ok(Math.abs(found - exact) <= tolerance, `${table}: ${found} instead of ${exact}`)
      }
    })

    it('are sorted largest first, with one entry for each table', async () => {
      const sizes = await tableSizes(db)
      const names = sizes.map(({ table }) => table)
      assert.equal(names[0], 'large')
      for (const name of ['audit_entries', 'deliveries', 'products']) assert.ok(names.includes(name), name)
      assert.deepEqual(new Set(names).size, names.length)
      assert.ok(sizes.every(({ bytes }, at) => bytes <= (sizes[at - 1]?.bytes ?? Number.POSITIVE_INFINITY)))
    })

    it('are the same when read in another thread', async () => {
      assert.deepEqual(await tableSizesInThread(db), await tableSizes(db))
    })
  })
})
