import { setTimeout as wait } from 'node:timers/promises'
import { CamelCasePlugin, Kysely, PostgresDialect, sql } from 'kysely'
import type pg from 'pg'
import { type Database, maxConnections } from '../database.ts'
import type { ResourceTable } from '../resource-tables/resource-columns.ts'
import type { Tables } from '../tables/tables.ts'
import { breakConnection, defaultTimeouts, openPool } from './pool.ts'

export interface TextIndexesOptions {
  db: Database
  tables: readonly ResourceTable[]
  onError: (error: unknown) => void
}

const cancelEveryMs = 100
/** If this many cancellations have no effect, the connection is closed instead. */
const maxCancels = 20
/** An arbitrary number, identical on every node. */
const indexingLock = 5_470_113

/** Opens a separate connection to the server, because the lock and the settings belong to a session. */
function openSession(connectionString: string) {
  const pool = openPool({ ...defaultTimeouts, connectionString, max: maxConnections.textIndex }, new Map())
  const clients = new Set<pg.PoolClient>()
  pool.on('connect', (client) => clients.add(client))
  pool.on('remove', (client) => clients.delete(client))
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }), plugins: [new CamelCasePlugin()] })
  /** Ends the connection without waiting for a response. */
  const destroy = () => {
    for (const client of clients) breakConnection(client, new Error('The service stops'))
  }
  return { db, destroy }
}

/**
 * Creates missing trigram indexes on searched PostgreSQL tables and replaces invalid or outdated ones, in the
 * background and without blocking writes (`create index concurrently`). Until a table has its index, each search of the
 * table reads every row. Returns a function that stops the work.
 */
export function ensureTextIndexes({ db, tables, onError }: TextIndexesOptions): () => Promise<void> {
  const searched = tables.filter(({ search }) => search.length > 0)
  if (db.engine.name !== 'postgres' || searched.length === 0) return async () => {}
  const work = { pid: 0, ended: false, stopped: false }
  const session = openSession(db.url)
  const done = session.db
    .connection()
    .execute((connection) => ensureAll(connection, searched, work))
    .finally(() => session.db.destroy())
    .catch((error) => {
      if (!work.stopped) onError(error)
    })
    .finally(() => {
      work.ended = true
    })
  return async () => {
    work.stopped = true
    try {
      // Cancels repeatedly, because a cancellation that arrives between two statements has no effect.
      for (let count = 0; !work.ended && count < maxCancels; count++) {
        if (work.pid !== 0) await sql`select pg_cancel_backend(${work.pid})`.execute(db.read)
        await wait(cancelEveryMs)
      }
    } finally {
      session.destroy()
      await done
    }
  }
}

interface Work {
  pid: number
  stopped: boolean
}

async function ensureAll(db: Kysely<Tables>, tables: readonly ResourceTable[], work: Work): Promise<void> {
  const { rows } = await sql<{ pid: number; isLocked: boolean }>`
    select pg_backend_pid() as pid, pg_try_advisory_lock(${indexingLock}) as is_locked`.execute(db)
  const { pid = 0, isLocked = false } = rows[0] ?? {}
  // If the lock is held, another node is creating the indexes.
  if (!isLocked) return
  work.pid = pid
  await sql`set statement_timeout = 0`.execute(db)
  await sql`set lock_timeout = 0`.execute(db)
  for (const table of tables) if (!work.stopped) await ensure(db, table)
}

async function ensure(db: Kysely<Tables>, { name, search }: ResourceTable): Promise<void> {
  const columns = search.map((column) => `${column}_key`)
  const index = `${name}_search`
  const { rows } = await sql<{ columns: string }>`
    select string_agg(a.attname, ',' order by a.attnum) as columns
    from pg_index i join pg_class c on c.oid = i.indexrelid join pg_attribute a on a.attrelid = c.oid
    where c.relname = ${index} and c.relnamespace = current_schema()::regnamespace and i.indisvalid`.execute(db)
  if (rows[0]?.columns === columns.join()) return
  await sql`drop index concurrently if exists ${sql.id(index)}`.execute(db)
  const { rows: classes } = await sql<{ schema: string }>`
    select n.nspname as schema from pg_opclass o join pg_namespace n on n.oid = o.opcnamespace
    where o.opcname = 'gin_trgm_ops'`.execute(db)
  const trigrams = sql.id(classes[0]?.schema ?? 'public', 'gin_trgm_ops')
  const indexed = sql.join(columns.map((column) => sql`${sql.id(column)} ${trigrams}`))
  await sql`create index concurrently ${sql.id(index)} on ${sql.id(name)} using gin (${indexed})`.execute(db)
}
