import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import type { Database } from '../../src/storage/database.ts'

/** The database to fill; its statements generate the rows inside the database. */
export interface Target {
  engine: 'sqlite' | 'postgres'
  /** Returns a query for the integers from first to last in a column `i`. */
  numbers: (first: number, last: number) => string
  /** Returns a SQL expression that converts epoch ms to an instant as ISO 8601 text. */
  instant: (ms: string) => string
  /** Returns a SQL expression that maps an integer to 22 random-looking but deterministic characters. */
  suffix: (number: string) => string
  /** Runs a statement in its own transaction; parameters are numbered as `$1`. */
  run: (sql: string, values?: (string | number)[]) => Promise<void>
  /** Returns a table's CREATE INDEX statements by index name, except indexes that belong to constraints. */
  indexesOf: (table: string) => Promise<Map<string, string>>
  /** Vacuums and analyzes PostgreSQL, as autovacuum would; truncates the write-ahead log of SQLite. */
  finish: () => Promise<void>
  close: () => Promise<void>
}

/**
 * Opens a connection without durable writes: a crash of the machine may lose rows or, on SQLite, corrupt the database.
 */
export function openTarget({ engine, url }: Database): Promise<Target> {
  return engine.name === 'sqlite' ? sqliteTarget(url) : postgresTarget(url)
}

async function sqliteTarget(url: string): Promise<Target> {
  const db = new DatabaseSync(url.replace(/^(sqlite|file):(\/\/(?=\/))?/, ''), { timeout: 10_000 })
  db.exec('pragma synchronous = off; pragma cache_size = -400000; pragma temp_store = memory; pragma foreign_keys = on')
  const indexes = db.prepare("select name, sql from sqlite_master where type = 'index' and tbl_name = ? and sql <> ''")
  return {
    engine: 'sqlite',
    numbers: (first, last) =>
      `(with recursive n(i) as (select ${first} union all select i + 1 from n where i < ${last}) select i from n) as n`,
    instant: (ms) => `strftime('%Y-%m-%dT%H:%M:%fZ', (${ms}) / 1000.0, 'unixepoch')`,
    suffix: (number) =>
      `printf('%010x%012x', (${number}) * 40503 % 1000003, (${number}) * 2654435761 % 281474976710597)`,
    run: async (sql, values = []) => void db.prepare(sql.replaceAll(/\$(\d+)/g, '?$1')).run(...values),
    indexesOf: async (table) =>
      new Map((indexes.all(table) as { name: string; sql: string }[]).map(({ name, sql }) => [name, sql])),
    finish: async () => db.exec('pragma wal_checkpoint(truncate)'),
    close: async () => db.close(),
  }
}

async function postgresTarget(url: string): Promise<Target> {
  const client = new pg.Client({ connectionString: url, application_name: 'plinth fill-large' })
  await client.connect()
  await client.query("set synchronous_commit = off; set maintenance_work_mem = '256MB'")
  return {
    engine: 'postgres',
    numbers: (first, last) => `generate_series(${first}::bigint, ${last}::bigint) as n (i)`,
    instant: (ms) => `to_char(to_timestamp((${ms}) / 1000.0) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`,
    suffix: (number) => `substr(md5((${number})::text), 1, 22)`,
    run: async (sql, values = []) => void (await client.query(sql, values)),
    indexesOf: async (table) => {
      const { rows } = await client.query(
        `select indexname as name, indexdef as sql from pg_indexes where schemaname = current_schema() and tablename = $1
           and not exists (select 1 from pg_constraint where conname = indexname)`,
        [table],
      )
      return new Map(rows.map(({ name, sql }) => [name, sql]))
    },
    finish: async () => void (await client.query('vacuum analyze')),
    close: () => client.end(),
  }
}

/**
 * Drops a table's indexes, fills the table and recreates the indexes, which is many times faster than updating them row by
 * row.
 */
export async function withoutIndexes(target: Target, table: string, fill: () => Promise<void>): Promise<void> {
  const indexes = await target.indexesOf(table)
  for (const name of indexes.keys()) await target.run(`drop index ${name}`)
  try {
    await fill()
  } finally {
    for (const sql of indexes.values()) await target.run(sql)
  }
}
