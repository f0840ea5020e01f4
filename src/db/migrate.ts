import { type Kysely, sql } from 'kysely'
import type { Engine } from './engine.ts'
import { resources } from './migrations/0001-resources.ts'
import { tasks } from './migrations/0002-tasks.ts'
import { auth } from './migrations/0003-auth.ts'
import { webhooks } from './migrations/0004-webhooks.ts'
import { reports } from './migrations/0009-reports.ts'
import type { Database } from './open.ts'

type Migration = (db: Kysely<unknown>, engine: Engine) => Promise<void>

/** In order, each run once and never changed after a release: a new need is a new entry. */
const migrations: [name: string, run: Migration][] = [
  ['0001-resources', resources],
  ['0002-tasks', tasks],
  ['0003-auth', auth],
  ['0004-webhooks', webhooks],
  ['0009-reports', reports],
]

/**
 * Brings the schema up to date in one transaction under a lock, and returns the names of what was run.
 * Throws, and changes nothing, when the database was made by a newer release.
 */
export async function migrate(database: Database): Promise<string[]> {
  return database.write(async (tx) => {
    for (const statement of database.engine.beforeMigration) await sql.raw(statement).execute(tx)
    await sql`create table if not exists migrations (name text primary key)`.execute(tx)
    const { rows } = await sql<{ name: string }>`select name from migrations`.execute(tx)
    const done = new Set(rows.map((row) => row.name))
    const known = new Set(migrations.map(([name]) => name))
    const newer = [...done].filter((name) => !known.has(name))
    if (newer.length > 0) throw new Error(`The database was made by a newer release (it has ${newer.join(', ')})`)
    const due = migrations.filter(([name]) => !done.has(name))
    for (const [name, run] of due) {
      await run(tx as unknown as Kysely<unknown>, database.engine)
      await sql`insert into migrations (name) values (${name})`.execute(tx)
    }
    return due.map(([name]) => name)
  })
}
