import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engine.ts'

/** Adds a column to tables with a Last-Modified date: whether an earlier revision of the row has the same date. */
export async function sharedSeconds(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const { rows } = await sql<{ name: string }>`select name from resource_tables`.execute(db)
  const own = ['users', 'products', 'books', 'tasks', 'webhooks', 'clients', 'api_keys']
  for (const table of new Set([...own, ...rows.map(({ name }) => name)])) {
    // An operator may have dropped the table.
    if ((await engine.columnsOf(table).execute(db)).rows.length === 0) continue
    await db.schema
      .alterTable(table)
      .addColumn('shares_second', 'integer', (c) => c.notNull().defaultTo(0))
      .execute()
    // The only earlier revision with a known time is the first, at `created_at`.
    await sql`
      update ${sql.table(table)} set shares_second = 1
      where revision > 1 and substr(created_at, 1, 19) = substr(updated_at, 1, 19)`.execute(db)
  }
}
