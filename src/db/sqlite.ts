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

/** A prepared statement; `columns` is empty when it returns no rows, otherwise rows come as arrays in that order. */
export interface SqliteStatement {
  run: StatementSync
  columns: readonly string[]
}

/** One open SQLite file with its prepared statements. */
export interface SqliteHandle {
  db: DatabaseSync
  statement: (sql: string) => SqliteStatement
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
  const cache = new Map<string, SqliteStatement>()
  return (sql) => {
    const known = cache.get(sql)
    if (known) return known
    const run = db.prepare(sql)
    const made = { run, columns: run.columns().map(({ name }) => name) }
    if (made.columns.length > 0) run.setReturnArrays(true)
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

/** Runs a statement that returns rows. They are built here because those that node:sqlite builds are slow to read. */
export function rowsOfStatement({ run, columns }: SqliteStatement, values: readonly unknown[]): unknown[] {
  const rows = run.all(...sqliteValues(values)) as unknown as unknown[][]
  return rows.map((cells) => {
    const row: Record<string, unknown> = {}
    for (let at = 0; at < columns.length; at++) row[columns[at] as string] = cells[at]
    return row
  })
}

function execute<R>(handle: SqliteHandle, query: CompiledQuery): QueryResult<R> {
  const statement = handle.statement(query.sql)
  if (statement.columns.length > 0) {
    const rows = rowsOfStatement(statement, query.parameters) as R[]
    return { rows, numAffectedRows: BigInt(rows.length) }
  }
  const { run } = statement
  const values = sqliteValues(query.parameters)
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
