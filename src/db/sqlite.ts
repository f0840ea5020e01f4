import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'

/** One open SQLite file with its prepared statements. */
export interface SqliteHandle {
  db: DatabaseSync
  /** A cached statement and whether it returns rows. */
  statement: (sql: string) => { run: StatementSync; reads: boolean }
}

const statementsKept = 400

/**
 * Opens a file: WAL, `synchronous=FULL` (an acknowledged write survives power loss), foreign keys on.
 * Waits at most 100 ms for another process's lock, since the wait blocks this thread.
 */
export function openSqliteFile(path: string, options: { readOnly?: boolean } = {}): SqliteHandle {
  const db = new DatabaseSync(path, { readOnly: options.readOnly ?? false, timeout: 100 })
  if (!options.readOnly) db.exec('pragma journal_mode = wal; pragma synchronous = full')
  db.exec(
    'pragma foreign_keys = on; pragma cache_size = -16000; pragma temp_store = memory; pragma trusted_schema = off',
  )
  return { db, statement: statementCache(db) }
}

function statementCache(db: DatabaseSync): SqliteHandle['statement'] {
  const cache = new Map<string, { run: StatementSync; reads: boolean }>()
  return (sql) => {
    const known = cache.get(sql)
    if (known) return known
    const run = db.prepare(sql)
    const made = { run, reads: run.columns().length > 0 }
    if (cache.size >= statementsKept) cache.delete(cache.keys().next().value as string)
    cache.set(sql, made)
    return made
  }
}

/** Values as node:sqlite takes them. A lone Date would silently become NULL, so it is refused. */
export function sqliteValues(values: readonly unknown[]): SQLInputValue[] {
  return values.map((value) => {
    if (value === undefined) return null
    if (typeof value === 'boolean') return value ? 1 : 0
    if (value instanceof Date) throw new TypeError('Pass instants as ISO text, not as Date')
    return value as SQLInputValue
  })
}

function execute<R>(handle: SqliteHandle, query: CompiledQuery): QueryResult<R> {
  const { run, reads } = handle.statement(query.sql)
  const values = sqliteValues(query.parameters)
  if (reads) {
    const rows = run.all(...values) as R[]
    return { rows, numAffectedRows: BigInt(rows.length) }
  }
  const { changes, lastInsertRowid } = run.run(...values)
  return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) }
}

/** node:sqlite in the shape Kysely expects: one connection that is never contended inside this process. */
export function sqliteDialect(handle: SqliteHandle): Dialect {
  const connection: DatabaseConnection = {
    executeQuery: async (query) => execute(handle, query),
    streamQuery: () => {
      throw new Error('Read in keyset pages instead of streaming')
    },
  }
  return {
    createAdapter: () => new SqliteAdapter(),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
    createDriver: () => ({
      init: async () => {},
      acquireConnection: async () => connection,
      beginTransaction: async () => handle.db.exec('begin immediate'),
      commitTransaction: async () => handle.db.exec('commit'),
      rollbackTransaction: async () => {
        if (handle.db.isTransaction) handle.db.exec('rollback')
      },
      releaseConnection: async () => {},
      destroy: async () => handle.db.close(),
    }),
  }
}
