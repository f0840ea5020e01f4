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
import type { RecorderOf, RecordRun } from './change-recorder.ts'
import type { DamageGuard } from './damage.ts'

/** A prepared statement. `toRow` converts its rows from arrays to objects; null if the statement returns no rows. */
export interface SqliteStatement {
  run: StatementSync
  toRow: ((cells: unknown[]) => unknown) | null
  /** Records the changes made by a run of the statement. */
  record: RecordRun | undefined
}

/** One open SQLite file with its prepared statements. */
export interface SqliteHandle {
  db: DatabaseSync
  statement: (sql: string) => SqliteStatement
}

export interface SqliteFileOptions {
  readOnly?: boolean
  /** Records the changes that statements make; nothing by default. */
  recorderOf?: RecorderOf
}

const maxStatements = 400

/**
 * Opens a file with WAL, `synchronous=FULL` (commits survive power loss) and foreign keys. Waits at most
 * 100 ms for a lock held by another process, because waiting blocks this thread.
 */
export function openSqliteFile(path: string, options: SqliteFileOptions = {}): SqliteHandle {
  const db = new DatabaseSync(path, { readOnly: options.readOnly ?? false, timeout: 100 })
  if (!options.readOnly)
    db.exec(
      'pragma page_size = 2048; pragma journal_mode = wal; pragma synchronous = full; pragma wal_autocheckpoint = 24000',
    )
  db.exec(
    'pragma foreign_keys = on; pragma cache_size = -6000; pragma temp_store = memory; pragma trusted_schema = off',
  )
  return { db, statement: statementCache(db, options.recorderOf) }
}

function statementCache(db: DatabaseSync, recorderOf?: RecorderOf): SqliteHandle['statement'] {
  const cache = new Map<string, SqliteStatement>()
  return (sql) => {
    const cached = cache.get(sql)
    if (cached) return cached
    const run = db.prepare(sql)
    const columns = run.columns().map(({ name }) => name)
    const record = recorderOf?.(db, sql, run)
    const statement = { run, toRow: columns.length > 0 ? rowFactory(columns) : null, record }
    if (statement.toRow) run.setReturnArrays(true)
    if (cache.size >= maxStatements) cache.delete(cache.keys().next().value as string)
    cache.set(sql, statement)
    return statement
  }
}

/**
 * Converts values to types that node:sqlite accepts. Throws a TypeError for a Date, which would silently become NULL.
 */
export function sqliteValues(values: readonly unknown[]): SQLInputValue[] {
  return values.map((value) => {
    if (value === undefined) return null
    if (typeof value === 'boolean') return value ? 1 : 0
    if (value instanceof Date) throw new TypeError('Pass instants as ISO 8601 text, not as Date')
    return value as SQLInputValue
  })
}

/**
 * Compiles `cells => ({ id: cells[0], … })`. An object literal has one hidden class, so creating and reading it is
 * several times faster than with objects that grow key by key or objects created by node:sqlite.
 */
function rowFactory(columns: readonly string[]): (cells: unknown[]) => unknown {
  const members = columns.map((name, at) => `${JSON.stringify(name)}: cells[${at}]`)
  return new Function('cells', `return { ${members.join(', ')} }`) as (cells: unknown[]) => unknown
}

/** Runs a statement that returns rows. */
export function rowsOfStatement({ run, toRow, record }: SqliteStatement, values: readonly unknown[]): unknown[] {
  const rows = run.all(...sqliteValues(values)) as unknown as unknown[][]
  record?.(rows)
  return toRow ? rows.map(toRow) : rows
}

/** Runs a statement that returns no rows. */
export function runStatement({ run, record }: SqliteStatement, values: readonly unknown[]) {
  const result = run.run(...sqliteValues(values))
  if (result.changes !== 0) record?.([])
  return result
}

function execute<R>(handle: SqliteHandle, query: CompiledQuery): QueryResult<R> {
  const statement = handle.statement(query.sql)
  if (statement.toRow) {
    const rows = rowsOfStatement(statement, query.parameters) as R[]
    return { rows, numAffectedRows: BigInt(rows.length) }
  }
  const { changes, lastInsertRowid } = runStatement(statement, query.parameters)
  return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) }
}

async function refuseTransaction(): Promise<never> {
  throw new Error('Use Database.write, which syncs its commits')
}

/** Creates a Kysely dialect for node:sqlite with a single connection. Statement errors are passed to the guard. */
export function sqliteDialect(handle: SqliteHandle, guard?: Pick<DamageGuard, 'rethrow'>): Dialect {
  const connection: DatabaseConnection = {
    executeQuery: async (query) => {
      try {
        return execute(handle, query)
      } catch (error) {
        guard?.rethrow(error)
        throw error
      }
    },
    streamQuery: () => {
      throw new Error('Streaming is not supported; read in keyset pages')
    },
  }
  return {
    createAdapter: () => new SqliteAdapter(),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
    createDriver: () => ({
      init: async () => {},
      acquireConnection: async () => connection,
      beginTransaction: refuseTransaction,
      commitTransaction: refuseTransaction,
      rollbackTransaction: refuseTransaction,
      releaseConnection: async () => {},
      destroy: async () => handle.db.close(),
    }),
  }
}
