import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { CamelCasePlugin, type Compilable, CompiledQuery, Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import { type Engine, postgres, sqlite } from './engine.ts'
import { groupCommit, type Write } from './group-commit.ts'
import { openSqliteFile, type SqliteHandle, sqliteDialect, sqliteValues } from './sqlite.ts'
import type { Tables } from './tables.ts'

/** A connection to query with: outside transactions `database.read`, inside a write unit the unit's own. */
export type Queryable = Kysely<Tables>

/** A statement compiled once: `all` reads outside transactions, `in` runs within a write unit. */
export interface Prepared<Row> {
  all: (values: readonly unknown[]) => Row[] | Promise<Row[]>
  in: (tx: Queryable, values: readonly unknown[]) => Promise<{ rows: Row[]; changed: number }>
}

/** A read-only view of one moment, for long reads: rows come as arrays, in keyset pages. */
export interface Snapshot {
  page: (sql: string, values: readonly unknown[]) => Promise<unknown[][]>
}

export interface Database {
  engine: Engine
  read: Queryable
  write: Write<Queryable>
  /** Compiles a statement; its parameters are given, in order, on each run. */
  prepare: <Row>(query: Compilable<Row>) => Prepared<Row>
  snapshot: <T>(use: (snapshot: Snapshot) => Promise<T>) => Promise<T>
  /** Resolves when the store answers a trivial query; throws otherwise. */
  ping: () => Promise<void>
  /** The place this database lives at, for a queue that needs connections of its own. */
  url: string
  close: () => Promise<void>
}

const camelCase = () => [new CamelCasePlugin()]

/** Opens `postgres://…`, or a SQLite file given as `file:` URL or path. Throws when it cannot be reached. */
export async function openDatabase(url: string, options: { poolSize?: number } = {}): Promise<Database> {
  return /^postgres(ql)?:/.test(url) ? openPostgres(url, options.poolSize ?? 10) : openSqlite(url)
}

function openSqlite(url: string): Database {
  const path = url.replace(/^(sqlite|file):(\/\/(?=\/))?/, '')
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const writer = openSqliteFile(path)
  const reader = openSqliteFile(path, { readOnly: true })
  const kysely = (handle: SqliteHandle) => new Kysely<Tables>({ dialect: sqliteDialect(handle), plugins: camelCase() })
  const tx = kysely(writer)
  return {
    engine: sqlite,
    url,
    read: kysely(reader),
    write: groupCommit(writer, tx),
    prepare: (query) => {
      const text = query.compile().sql
      return {
        all: (values) => reader.statement(text).run.all(...sqliteValues(values)) as never,
        in: (_tx, values) => runPrepared(writer, text, values) as never,
      }
    },
    snapshot: (use) => sqliteSnapshot(path, use),
    ping: async () => void reader.statement('select 1').run.get(),
    close: async () => {
      reader.db.close()
      writer.db.close()
    },
  }
}

async function runPrepared(handle: SqliteHandle, text: string, values: readonly unknown[]) {
  const { run, reads } = handle.statement(text)
  if (!reads) return { rows: [], changed: Number(run.run(...sqliteValues(values)).changes) }
  const rows = run.all(...sqliteValues(values))
  return { rows, changed: rows.length }
}

async function sqliteSnapshot<T>(path: string, use: (snapshot: Snapshot) => Promise<T>): Promise<T> {
  const handle = openSqliteFile(path, { readOnly: true })
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  try {
    handle.db.exec('begin')
    return await use({
      page: async (text, values) => {
        await turn()
        const { run } = handle.statement(text)
        run.setReturnArrays(true)
        return run.all(...sqliteValues(values)) as unknown as unknown[][]
      },
    })
  } finally {
    handle.db.close()
  }
}

const int8 = 20
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    oid === int8 ? Number : pg.types.getTypeParser(oid, format as 'text')) as never,
}

async function openPostgres(url: string, max: number): Promise<Database> {
  const pool = new pg.Pool({
    connectionString: url,
    max,
    types,
    connectionTimeoutMillis: 3_000,
    statement_timeout: 5_000,
    lock_timeout: 2_000,
    idle_in_transaction_session_timeout: 10_000,
    application_name: 'plinth',
  })
  // An idle connection that breaks is replaced on the next use; the failing query reports what matters.
  pool.on('error', () => {})
  await pool.query('select 1')
  const read = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }), plugins: camelCase() })
  let prepared = 0
  return {
    engine: postgres,
    url,
    read,
    write: (unit) => read.transaction().execute(unit),
    prepare: (query) => {
      const text = query.compile().sql
      const name = `plinth_${++prepared}`
      return {
        all: async (values) => (await pool.query({ name, text, values: [...values] })).rows,
        in: async (tx, values) => {
          const { rows, numAffectedRows } = await tx.executeQuery(CompiledQuery.raw(text, [...values]))
          return { rows: rows as never, changed: Number(numAffectedRows ?? rows.length) }
        },
      }
    },
    snapshot: (use) => postgresSnapshot(pool, use),
    ping: async () => void (await sql`select 1`.execute(read)),
    close: () => read.destroy(),
  }
}

async function postgresSnapshot<T>(pool: pg.Pool, use: (snapshot: Snapshot) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query('begin isolation level repeatable read read only')
    await client.query('set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0')
    const result = await use({
      page: async (text, values) => (await client.query({ text, values: [...values], rowMode: 'array' })).rows,
    })
    await client.query('commit')
    client.release()
    return result
  } catch (error) {
    client.release(true)
    throw error
  }
}
