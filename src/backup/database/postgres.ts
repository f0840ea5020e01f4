import { stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { BackupBroken, BackupRefused } from '../errors.ts'
import { type CopyOptions, type DatabaseCopy, type ReadRows, readContents } from './copy.ts'
import { connectionEnv, findTool, runTool } from './postgres-tools.ts'

/** The schema that contains pg-boss's queue. */
const queueSchema = 'pgboss'
/** The extension that the text indexes use. */
const textExtension = 'pg_trgm'
/** The first release of `pg_dump` that can dump selected schemas together with extensions. */
const minDumpMajor = 14
const reportEveryMs = 500

/** Runs statements on a separate connection, without time limits. */
async function connected<T>(url: string, work: (read: ReadRows) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    ...{ connectionString: url, application_name: 'plinth-backup', keepAlive: true, connectionTimeoutMillis: 10_000 },
  })
  // Without a listener, a broken connection would crash the process. Queries on the connection report the failure.
  client.on('error', () => {})
  await client.connect()
  try {
    await client.query('set statement_timeout = 0; set idle_in_transaction_session_timeout = 0')
    return await work(async (sql) => (await client.query(sql)).rows)
  } finally {
    await client.end()
  }
}

const factsQuery = `
  select current_schema() as schema, current_setting('server_version_num')::int / 10000 as major,
    exists (select from pg_namespace where nspname = '${queueSchema}') as "hasQueue",
    exists (select from pg_extension where extname = '${textExtension}') as "hasExtension",
    floor(extract(epoch from clock_timestamp()) * 1000)::float8 as now`

interface Facts {
  schema: string
  major: number
  hasQueue: boolean
  hasExtension: boolean
  /** The server's time, in ms since the epoch. */
  now: number
}

/**
 * Copies the tables and the queue with `pg_dump`, in the snapshot of one transaction; services may continue to write.
 * Throws `BackupRefused` if there is no `pg_dump` for the server's release.
 */
export async function copyPostgres(url: string, { folder, signal, onProgress }: CopyOptions): Promise<DatabaseCopy> {
  const file = join(folder, 'database.dump')
  return connected(url, async (read) => {
    const [facts] = (await read(factsQuery)) as unknown as Facts[]
    const { schema, major, hasQueue, hasExtension, now: takenAt } = facts as Facts
    const tool = await findTool('pg_dump', Math.max(major, minDumpMajor))
    await read('begin isolation level repeatable read read only')
    const snapshot = String((await read('select pg_export_snapshot() as id'))[0]?.id)
    const tables = await tablesIn(read, schema)
    if (!tables.some(([name]) => name === 'migrations')) throw new BackupRefused('The database has no tables of Plinth')
    // The rows of `nodes` are not copied, because no node uses a newly restored database.
    const contents = await readContents(
      read,
      tables.filter(([name]) => name !== 'nodes'),
      takenAt,
    )
    const args = [
      ...['--format=custom', '--compress=0', `--snapshot=${snapshot}`, '--no-owner', '--no-privileges'],
      ...['--lock-wait-timeout=60s', `--file=${file}`, `--schema=${quoted(schema)}`],
      `--exclude-table-data=${quoted(schema)}.nodes`,
      ...(hasQueue ? [`--schema=${queueSchema}`] : []),
      ...(hasExtension ? [`--extension=${textExtension}`] : []),
    ]
    const report = setInterval(() => {
      stat(file).then(
        ({ size }) => onProgress(size, null),
        () => {},
      )
    }, reportEveryMs)
    await runTool(tool, args, { env: connectionEnv(url), signal }).finally(() => clearInterval(report))
    const { size } = await stat(file)
    onProgress(size, size)
    signal.throwIfAborted()
    return { engine: 'postgres', file, takenAt, postgres: { schema, dumpMajor: tool.major }, ...contents }
  })
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`

async function tablesIn(read: ReadRows, schema: string): Promise<[name: string, quoted: string][]> {
  const rows = await read(`
    select tablename as name from pg_tables where schemaname = '${schema.replaceAll("'", "''")}' order by tablename`)
  return rows.map(({ name }) => [String(name), `${quoted(schema)}.${quoted(String(name))}`])
}

/** Throws `BackupBroken` if `pg_restore` cannot read the file. */
export async function checkDump(file: string, dumpMajor: number, signal: AbortSignal): Promise<void> {
  const tool = await findTool('pg_restore', dumpMajor)
  await runTool(tool, ['--list', file], { env: {}, signal }).catch((error) => {
    signal.throwIfAborted()
    throw new BackupBroken(`its database cannot be read: ${error.message}`, { cause: error })
  })
}

/**
 * Throws `BackupRefused` unless the current schema has this name and no tables, and the queue's schema does not exist.
 */
export async function refuseFilledDatabase(url: string, schema: string): Promise<void> {
  await connected(url, async (read) => {
    const [facts] = (await read(factsQuery)) as unknown as Facts[]
    const { schema: current, hasQueue } = facts as Facts
    if (current !== schema) {
      throw new BackupRefused(
        `The backup has the schema ${schema}, but the current schema of the database is ${current}`,
      )
    }
    const names = (await tablesIn(read, schema)).map(([name]) => name)
    const first = names.slice(0, 3).join(', ')
    if (names.length > 0)
      throw new BackupRefused(`The database is not empty: it has ${names.length} tables (${first}, …)`)
    if (hasQueue) throw new BackupRefused(`The database is not empty: it has the schema ${queueSchema}`)
  })
}

/** Restores a dump into an empty database, in one transaction. */
export async function restoreDump(
  url: string,
  file: string,
  { schema, dumpMajor }: { schema: string; dumpMajor: number },
  signal: AbortSignal,
): Promise<void> {
  const tool = await findTool('pg_restore', dumpMajor)
  const contents = await runTool(tool, ['--list', file], { env: {}, signal })
  // Skips the schema, which already exists, and COMMENT entries for extensions, which only superusers may restore.
  const isSkipped = (line: string) =>
    line.includes(` SCHEMA - ${schema} `) || / COMMENT - (SCHEMA|EXTENSION) /.test(line)
  const list = `${file}.list`
  await writeFile(
    list,
    contents.replace(/^.*$/gm, (line) => (isSkipped(line) ? `;${line}` : line)),
    { mode: 0o600 },
  )
  const env = connectionEnv(url)
  const args = ['--single-transaction', '--exit-on-error', '--no-owner', '--no-privileges', `--use-list=${list}`]
  await runTool(tool, [...args, `--dbname=${env.PGDATABASE ?? ''}`, file], { env, signal })
}

/** Runs ANALYZE, because without statistics on the tables, the first queries would be slow. */
export async function gatherStatistics(url: string): Promise<void> {
  await connected(url, async (read) => read('analyze')).catch((cause) => {
    throw new Error('The backup was restored, but ANALYZE failed: run it in the database', { cause })
  })
}
