import { randomUUID } from 'node:crypto'
import { CamelCasePlugin, CompiledQuery, Kysely, PostgresDialect } from 'kysely'
import type pg from 'pg'
import {
  type Database,
  maxConnections,
  type OnCommit,
  type PoolMeasures,
  poolShare,
  type Queryable,
  type ReadOnlyDatabase,
} from '../database.ts'
import { insertEntry, type NewChange, newTag, rowLog } from '../row-changes/row-log.ts'
import { scanner } from '../scans/scanner.ts'
import type { Tables } from '../tables/tables.ts'
import type { TextIndex } from '../text-index/text-index.ts'
import type { SetTimer } from '../timer.ts'
import { cancellableRunner } from './cancellable-runner.ts'
import { postgres } from './engine.ts'
import { bestEffortTimeouts, defaultTimeouts, openPool } from './pool.ts'
import { checkPooler } from './pooler.ts'
import { withoutNul } from './statements.ts'

const sessionTimeouts = { lock_timeout: 2_000, idle_in_transaction_session_timeout: 10_000 }
/** Health probes wait only a few seconds for a response, so a ping must fail before that. */
const pingQuery = { text: 'select 1', query_timeout: 2_000 }
/** A pooler accepts no session settings, so the timeouts must be set on the role: see `checkPooler`. */
const ofPooler = {
  connectionTimeoutMillis: defaultTimeouts.connectionTimeoutMillis,
  responseMs: defaultTimeouts.responseMs,
}

export interface PostgresOptions {
  /** Maximum number of connections, in addition to those reserved for admission checks and those for scans. */
  poolSize: number
  /** Number of threads in this process that share these connections. */
  divisor: number
  isBestEffort: boolean
  /** The URL of the pooler in front of the server, such as PgBouncer in transaction mode; null if there is none. */
  poolerUrl: string | null
  setTimer: SetTimer
  onCommit: OnCommit
}

const scansPerAccount = 1
/** Limits a scan to one core of the server, because parallel workers would slow down index-bounded reads. */
const scanOptions = '-c max_parallel_workers_per_gather=0'

/**
 * Opens the connection pools; rejects if the server cannot be reached, or if the pooler's connections lack a timeout.
 */
export async function openPostgres(
  url: string,
  { poolSize, divisor, isBestEffort, poolerUrl, setTimer, onCommit }: PostgresOptions,
): Promise<Database> {
  const names = new Map<string, string>()
  const ofServer = {
    connectionString: url,
    ...(isBestEffort ? bestEffortTimeouts : defaultTimeouts),
    ...sessionTimeouts,
  }
  const shareOf = (connections: number) => poolShare(connections, divisor)
  const pool = (max: number) =>
    openPool(poolerUrl === null ? { ...ofServer, max } : { ...ofPooler, connectionString: poolerUrl, max }, names)
  const [main, reservedPool] = [pool(shareOf(poolSize)), pool(shareOf(maxConnections.reserved))]
  // Scans have their own connections, so they do not delay other statements. These connections bypass the pooler,
  // because scans need session settings and are cancelled by process id.
  const scanPool = openPool({ ...ofServer, options: scanOptions, max: shareOf(maxConnections.scans) }, names)
  if (poolerUrl === null) await main.query('select 1')
  else
    await checkPooler(main).catch(async (error) => {
      await main.end()
      throw error
    })
  const execute = cancellableRunner(scanPool, main)
  const scans = scanner({
    running: shareOf(maxConnections.scans),
    runningPerAccount: scansPerAccount,
    setTimer,
    execute,
  })
  // PostgreSQL finds the rows itself, with the indexes that `postgres/text-index.ts` creates.
  const textIndex: TextIndex = { candidates: async () => undefined, close: async () => {} }
  const pools: Record<string, pg.Pool> = { main, reserved: reservedPool, scans: scanPool }
  const measure = () => ({ pools: Object.entries(pools).map(measuresOf), walBytes: null })
  const shared = { engine: postgres, url, scan: scans.scan, textIndex, changes: null, measure }
  const ping = async () => void (await reservedPool.query(pingQuery))
  const close = async () => {
    await scans.close()
    await Promise.all(Object.values(pools).map((pool) => pool.end()))
  }
  // A named statement exists only in the session that prepared it, and a pooler may use a different session each time.
  const access = { names: poolerUrl === null ? names : null, onCommit, pending: new WeakMap() }
  const accessOf = (one: pg.Pool) => accessTo({ ...access, pool: one })
  const reserved: Database = {
    ...{ ...shared, ...accessOf(reservedPool), ping, close },
    get reserved() {
      return reserved
    },
  }
  return { ...shared, ...accessOf(main), reserved, ping, close }
}

/** Opens one connection for reading; rejects if the server cannot be reached. `isUnlimited` removes the time limit. */
export async function openPostgresReadOnly(url: string, isUnlimited: boolean): Promise<ReadOnlyDatabase> {
  const limits = isUnlimited ? { ...defaultTimeouts, statement_timeout: 0, responseMs: null } : defaultTimeouts
  const pool = openPool({ connectionString: url, max: 1, ...limits, ...sessionTimeouts }, new Map())
  try {
    await pool.query('select 1')
  } catch (error) {
    await pool.end()
    throw error
  }
  const { read } = accessTo({ pool, names: new Map(), onCommit: () => {}, pending: new WeakMap() })
  return { engine: postgres, url, read, close: () => pool.end() }
}

const measuresOf = ([pool, { options, totalCount, idleCount, waitingCount }]: [string, pg.Pool]): PoolMeasures => ({
  ...{ pool, max: options.max, open: totalCount, idle: idleCount, waiting: waitingCount },
})

interface Access {
  pool: pg.Pool
  names: Map<string, string> | null
  onCommit: OnCommit
  /** The changes that each transaction has logged so far. */
  pending: WeakMap<Queryable, NewChange[]>
}

/**
 * Creates the read and write methods of `Database` for a pool; without `names`, statements are not prepared by name.
 */
function accessTo({ pool, names, onCommit, pending }: Access) {
  const read = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }), plugins: [new CamelCasePlugin()] })
  const prepare: Database['prepare'] = (query) => {
    const text = query.compile().sql
    const name = names?.get(text) ?? `plinth_${(names?.size ?? 0) + 1}`
    names?.set(text, name)
    return {
      all: async (values) =>
        (await pool.query({ ...(names && { name }), text, values: withoutNul(text, [...values]) })).rows,
      in: async (tx, values) => {
        const { rows, numAffectedRows } = await tx.executeQuery(CompiledQuery.raw(text, [...values]))
        return { rows: rows as never, changed: Number(numAffectedRows ?? rows.length) }
      },
    }
  }
  const prepareInsert: Database['prepareInsert'] = (query, expression) => {
    const insert = prepare<{ id: number; result: number }>(query.returning('id').returning(expression.as('result')))
    return async (tx, values) => (await insert.in(tx, values)).rows[0] as { id: number; result: number }
  }
  const pendingIn = (tx: Queryable) => {
    const changes = pending.get(tx)
    if (changes === undefined) throw new Error('Changes of rows are logged in the transactions of `Database.write`')
    return changes
  }
  const rows = rowLog({ pendingIn, insert: prepare(insertEntry(read)).in, tag: newTag(randomUUID) })
  const write: Database['write'] = async (unit) => {
    const beganMs = performance.now()
    const changes: NewChange[] = []
    const result = await read.transaction().execute(async (tx) => {
      pending.set(tx, changes)
      const value = await unit(tx)
      if (changes.length > 0) await rows.write(tx)
      return value
    })
    // The second argument is empty, because PostgreSQL does not commit transactions in the order of `seq`.
    rows.committed(changes, [])
    onCommit(1, (performance.now() - beganMs) / 1_000)
    return result
  }
  return { read, write, prepare, prepareInsert, rowLog: rows }
}
