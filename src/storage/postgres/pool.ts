import pg from 'pg'
import { useNames } from './statements.ts'

const int8 = 20
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    oid === int8 ? Number : pg.types.getTypeParser(oid, format as 'text')) as never,
}

interface Timeouts {
  connectionTimeoutMillis: number
  /** The statement timeout that the server enforces, in ms. */
  statement_timeout: number
  /**
   * How long to wait for a response. Longer than the server's limit, so that a responsive server reports the timeout
   * first.
   */
  responseMs: number
  options?: string
}

export const defaultTimeouts: Timeouts = {
  connectionTimeoutMillis: 3_000,
  statement_timeout: 5_000,
  responseMs: 6_000,
}
export const bestEffortTimeouts: Timeouts = {
  connectionTimeoutMillis: 500,
  statement_timeout: 500,
  responseMs: 700,
  options: '-c synchronous_commit=off',
}

/**
 * Opens a pool. Each connection waits at most `responseMs` for a response; null means no limit. Statements listed in
 * `names` are sent as prepared statements with these names.
 */
export function openPool(
  { responseMs, ...config }: pg.PoolConfig & { responseMs: number | null },
  names: ReadonlyMap<string, string>,
): pg.Pool {
  const pool = new pg.Pool({
    ...config,
    types,
    application_name: 'plinth',
    // Detects broken connections while they run statements without a time limit, such as migrations.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  })
  // The pool replaces an idle connection that breaks. If a connection breaks during a query, the query reports the
  // error.
  pool.on('error', () => {})
  pool.on('connect', (client) => {
    ignoreRollbackWhenBroken(client)
    if (responseMs !== null) watchResponses(client, responseMs)
    useNames(client, names)
  })
  return pool
}

/**
 * Makes ROLLBACK succeed on a broken connection, because its transaction has already ended. The caller then gets the
 * error that broke the connection, not the error of the ROLLBACK.
 */
function ignoreRollbackWhenBroken(client: pg.PoolClient): void {
  const query = client.query.bind(client) as (...args: unknown[]) => unknown
  let isBroken = false
  // Without a listener, an error on a connection that is checked out would crash the process.
  client.on('error', () => {
    isBroken = true
  })
  const rolledBack = { command: 'ROLLBACK', rowCount: 0, rows: [] }
  Object.assign(client, {
    query: (text: unknown, ...rest: unknown[]) =>
      isBroken && text === 'rollback' ? Promise.resolve(rolledBack) : query(text, ...rest),
  })
}

/** Closes a connection at once. Its query fails with the error. */
export function breakConnection(client: pg.PoolClient, error: Error): void {
  const { connection } = client as unknown as { connection: { stream: { destroy: (error: Error) => void } } }
  connection.stream.destroy(error)
}

const removesLimit = /^set (local )?statement_timeout = 0$/
const restoresLimit = /^(commit|rollback)$/

/**
 * Closes a connection whose server has not responded for `limitMs`, which happens if the network loses packets. Its
 * query fails with ETIMEDOUT, and the pool replaces the connection. Otherwise, the query would wait until the operating
 * system gives up, which takes a quarter of an hour. After `set statement_timeout = 0`, there is no limit until the
 * next COMMIT or ROLLBACK.
 */
function watchResponses(client: pg.PoolClient, limitMs: number): void {
  const query = client.query.bind(client) as (...args: unknown[]) => unknown
  let timer: NodeJS.Timeout | undefined
  let isLimited = true
  const giveUp = () => {
    const error = new Error(`PostgreSQL did not respond within ${limitMs} ms`)
    breakConnection(client, Object.assign(error, { code: 'ETIMEDOUT' }))
  }
  const watchedQuery = (text: unknown, ...rest: unknown[]) => {
    if (typeof text === 'string') {
      if (removesLimit.test(text)) isLimited = false
      else if (!isLimited && restoresLimit.test(text)) isLimited = true
    }
    clearTimeout(timer)
    if (isLimited) timer = setTimeout(giveUp, limitMs)
    return query(text, ...rest)
  }
  // pg emits `drain` after the last response.
  for (const event of ['drain', 'end'] as const) client.on(event, () => clearTimeout(timer))
  Object.assign(client, { query: watchedQuery })
}
