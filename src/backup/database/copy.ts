/**
 * A file that should be in the result store according to the copied database: a report result, an archived month of the
 * audit log, or a row's file.
 */
export interface ExpectedResult {
  key: string
  sizeBytes: number
  /** The digest of the content, in base64. */
  sha256: string
}

/** A consistent copy of a database in one file, and a description of its content. */
export interface DatabaseCopy {
  engine: 'sqlite' | 'postgres'
  file: string
  /** The copy contains every row that was acknowledged before this instant (epoch ms). */
  takenAt: number
  migrations: string[]
  /**
   * The fingerprints of the master keys that open the copy; none if the database is from a release without data keys.
   */
  masterKeys: string[]
  /** The tables of declared resources. */
  resources: string[]
  /** The number of rows in each table. */
  tables: Record<string, number>
  results: ExpectedResult[]
  /** For PostgreSQL: the schema of the tables, and the release of `pg_dump`. */
  postgres: { schema: string; dumpMajor: number } | null
}

export interface CopyOptions {
  /** The folder for the copy; it contains nothing else. */
  folder: string
  signal: AbortSignal
  /** Called with the number of bytes copied so far, and the total; null if the total is not known. */
  onProgress: (doneBytes: number, totalBytes: number | null) => void
}

type Rows = readonly Record<string, unknown>[]

/** Runs a read-only statement and returns its rows. */
export type ReadRows = (sql: string) => Rows | Promise<Rows>

/** Reads the description of a copy's content. `tables` contains the name of each table, plain and quoted for SQL. */
export async function readContents(read: ReadRows, tables: readonly [name: string, quoted: string][], takenAt: number) {
  const column = async (sql: string, name: string) => (await read(sql)).map((row) => String(row[name]))
  const counts: Record<string, number> = {}
  for (const [name, quoted] of tables) {
    counts[name] = Number((await read(`select count(*) as "rows" from ${quoted}`))[0]?.rows)
  }
  const results = await read(`
    select result_key, size_bytes, sha256 from tasks where status = 'completed' and result_key is not null
      and expires_at > '${new Date(takenAt).toISOString()}' order by result_key`)
  const hasDataKeys = tables.some(([name]) => name === 'data_keys')
  // A database from an earlier release has no archives and no files.
  const archives = tables.some(([name]) => name === 'audit_archives')
    ? await read('select key as result_key, size_bytes, sha256 from audit_archives order by month')
    : []
  const files = tables.some(([name]) => name === 'stored_files')
    ? await read(`
        select key as result_key, size_bytes, sha256 from stored_files where state in ('stored', 'kept') order by key`)
    : []
  return {
    masterKeys: hasDataKeys ? await column('select distinct fingerprint from data_keys', 'fingerprint') : [],
    migrations: await column('select name from migrations order by name', 'name'),
    resources: await column('select name from resource_tables order by name', 'name'),
    tables: counts,
    results: [...results, ...archives, ...files].map(({ result_key, size_bytes, sha256 }) => ({
      ...{ key: String(result_key), sizeBytes: Number(size_bytes), sha256: String(sha256) },
    })),
  }
}
