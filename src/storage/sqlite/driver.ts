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

/** A prepared statement. Its rows are arrays, which `toRow` converts to objects; `toRow` is null if it returns no rows. */
export interface SqliteStatement {
  run: StatementSync
  toRow: ((cells: unknown[]) => unknown) | null
}

/** One open SQLite file with its prepared statements. */
export interface SqliteHandle {
  db: DatabaseSync
  statement: (sql: string) => SqliteStatement
}

const maxStatements = 400

/**
 * Opens a file: WAL, `synchronous=FULL` (an acknowledged write survives power loss), foreign keys on. Waits at most 100 ms
 * for another process's lock, because waiting blocks this thread.
 */
export function openSqliteFile(path: string, options: { readOnly?: boolean } = {}): SqliteHandle {
  const db = new DatabaseSync(path, { readOnly: options.readOnly ?? false, timeout: 100 })
  if (!options.readOnly)
    db.exec(
      'pragma page_size = 2048; pragma journal_mode = wal; pragma synchronous = full; pragma wal_autocheckpoint = 24000',
    )
  db.exec(
    'pragma foreign_keys = on; pragma cache_size = -6000; pragma temp_store = memory; pragma trusted_schema = off',
  )
  return { db, statement: statementCache(db) }
}

function statementCache(db: DatabaseSync): SqliteHandle['statement'] {
  const cache = new Map<string, SqliteStatement>()
  return (sql) => {
    const cached = cache.get(sql)
    if (cached) return cached
    const run = db.prepare(sql)
    const columns = run.columns().map(({ name }) => name)
    const statement = { run, toRow: columns.length > 0 ? rowFactory(columns) : null }
    if (statement.toRow) run.setReturnArrays(true)
    if (cache.size >= maxStatements) cache.delete(cache.keys().next().value as string)
    cache.set(sql, statement)
    return statement
  }
}

/** Converts values to types that node:sqlite accepts. A Date would silently become NULL, so it throws a TypeError. */
export function sqliteValues(values: readonly unknown[]): SQLInputValue[] {
  return values.map((value) => {
    if (value === undefined) return null
    if (typeof value === 'boolean') return value ? 1 : 0
    if (value instanceof Date) throw new TypeError('Pass instants as ISO 8601 text, not as Date')
    return value as SQLInputValue
  })
}

/**
 * Compiles `cells => ({ id: cells[0], … })`. An object literal has one hidden class, so it is several times faster to
 * create and to read than an object that grows key by key, or than the objects that node:sqlite creates.
 */
function rowFactory(columns: readonly string[]): (cells: unknown[]) => unknown {
  const members = columns.map((name, at) => `${JSON.stringify(name)}: cells[${at}]`)
  return new Function('cells', `return { ${members.join(', ')} }`) as (cells: unknown[]) => unknown
}

/** Runs a statement that returns rows. */
export function rowsOfStatement({ run, toRow }: SqliteStatement, values: readonly unknown[]): unknown[] {
  const rows = run.all(...sqliteValues(values)) as unknown as unknown[][]
  return toRow ? rows.map(toRow) : rows
}

/** A read transaction that the reads of one event loop iteration share. */
export interface SharedReads {
  begin: () => void
  /** Call before acknowledging a write, so that the writer can read its own write. */
  end: () => void
  /** The file's `data_version`, read at most once per iteration. */
  generation: () => number
}

/**
 * Lets the reads of one event loop iteration share a transaction; otherwise each would lock and unlock the file. An
 * iteration that only reads the generation opens no transaction: data read later in it may be newer than the generation,
 * never older.
 */
export function sharedReads(handle: SqliteHandle): SharedReads {
  let isOpen = false
  let willEnd = false
  let generation: number | null = null
  const end = () => {
    generation = null
    if (!isOpen) return
    isOpen = false
    if (handle.db.isOpen) handle.statement('commit').run.run()
  }
  const endSoon = () => {
    if (willEnd) return
    willEnd = true
    setImmediate(() => {
      willEnd = false
      end()
    })
  }
  const begin = () => {
    if (isOpen) return
    isOpen = true
    handle.statement('begin').run.run()
    endSoon()
  }
  const readVersion = () => {
    endSoon()
    const [row] = rowsOfStatement(handle.statement('pragma data_version'), []) as { data_version: number }[]
    return (row as { data_version: number }).data_version
  }
  return { begin, end, generation: () => (generation ??= readVersion()) }
}

function execute<R>(handle: SqliteHandle, query: CompiledQuery): QueryResult<R> {
  const statement = handle.statement(query.sql)
  if (statement.toRow) {
    const rows = rowsOfStatement(statement, query.parameters) as R[]
    return { rows, numAffectedRows: BigInt(rows.length) }
  }
  const { run } = statement
  const values = sqliteValues(query.parameters)
  const { changes, lastInsertRowid } = run.run(...values)
  return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) }
}

/** A Kysely dialect for node:sqlite, with a single connection. */
export function sqliteDialect(handle: SqliteHandle): Dialect {
  const connection: DatabaseConnection = {
    executeQuery: async (query) => execute(handle, query),
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
