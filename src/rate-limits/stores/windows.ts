import { CompiledQuery, type RawBuilder, sql } from 'kysely'
import type { Database, PreparedStatement } from '../../storage/database.ts'
import { sweepBelow } from '../../storage/sweep.ts'
import { inBatches } from './coalesce.ts'

/** A window that has not ended, with its count and end. */
export interface OpenWindow {
  used: number
  endsAtMs: number
}

/** Fixed windows shared by several processes. */
export interface LimitWindows {
  /** Adds a call to the key's window, which starts with its first call; `used` includes this call. */
  add: (key: string, seconds: number) => Promise<OpenWindow>
  /** Returns the key's window, or null if no window is open. */
  look: (key: string) => Promise<OpenWindow | null>
}

/** The methods that every rate-limiter-flexible store has. */
export interface WindowCounter {
  consume: (key: string, calls: number, options: { customDuration: number }) => Promise<Counted>
  get: (key: string) => Promise<Counted | null>
}

interface Counted {
  consumedPoints: number
  msBeforeNext: number
}

/** A limit that no window can reach. Each key has its own limit, so the caller compares the count with that limit. */
export const uncountable = 2_000_000_000

/**
 * Implements windows with a rate-limiter-flexible limiter. Coalesces this process's concurrent calls for the same key.
 */
export function windowsOf(limiter: WindowCounter, now: () => number): LimitWindows {
  const opened = ({ consumedPoints, msBeforeNext }: Counted): OpenWindow => ({
    used: consumedPoints,
    endsAtMs: now() + msBeforeNext,
  })
  const count = inBatches(async (id, calls) => {
    const [key, seconds] = JSON.parse(id) as [string, number]
    return opened(await limiter.consume(key, calls, { customDuration: seconds }))
  })
  return {
    add: async (key, seconds) => {
      const { result, index, calls } = await count(JSON.stringify([key, seconds]))
      return { used: result.used - calls + index + 1, endsAtMs: result.endsAtMs }
    },
    look: async (key) => {
      const found = await limiter.get(key)
      return found === null ? null : opened(found)
    },
  }
}

/** Implements windows in the database, with the appropriate counter for its engine. */
export async function windowsIn(db: Database, now: () => number): Promise<LimitWindows> {
  if (db.engine.name === 'sqlite') return windowsOf(rowLimiter(db, now), now)
  const { RateLimiterPostgres } = await import('rate-limiter-flexible')
  const storeClient = { query: pooled(db) }
  const table = { tableName: 'limit_windows', tableCreated: true, clearExpiredByTimeout: false }
  const about = { storeType: 'client', keyPrefix: 'w', points: uncountable, duration: 60 }
  return windowsOf(new RateLimiterPostgres({ storeClient, ...table, ...about }), now)
}

/**
 * Provides the client interface that rate-limiter-flexible expects, based on the service's connection pool and prepared
 * statements.
 */
function pooled(db: Database) {
  const prepared = new Map<string, PreparedStatement<object>>()
  return async ({ text, values = [] }: { text: string; values?: unknown[] }) => {
    const known = prepared.get(text) ?? db.prepare<object>({ compile: () => CompiledQuery.raw(text) as never })
    prepared.set(text, known)
    const rows = await known.all(values)
    return { rows, rowCount: rows.length }
  }
}

interface Row {
  points: number
  expire: number
}

/** Creates a counter for the embedded database, whose single writer rate-limiter-flexible cannot use. */
function rowLimiter(db: Database, now: () => number): WindowCounter {
  const text = sql<Row>`
    insert into limit_windows (key, points, expire) values (${''}, ${0}, ${0})
    on conflict (key) do update set
      points = case when limit_windows.expire <= ${0} then excluded.points else limit_windows.points + excluded.points end,
      expire = case when limit_windows.expire <= ${0} then excluded.expire else limit_windows.expire end
    returning points, expire`
  const prepared = (statement: RawBuilder<Row>): PreparedStatement<Row> =>
    db.prepare({ compile: () => statement.compile(db.read) })
  const count = prepared(text)
  const find = prepared(sql<Row>`select points, expire from limit_windows where key = ${''} and expire > ${0}`)
  const counted = ({ points, expire }: Row): Counted => ({ consumedPoints: points, msBeforeNext: expire - now() })
  return {
    consume: async (key, calls, { customDuration }) => {
      const at = now()
      const { rows } = await db.write((tx) => count.in(tx, [key, calls, at + customDuration * 1_000, at, at]))
      return counted(rows[0] as Row)
    },
    get: async (key) => {
      const [row] = await find.all([key, now()])
      return row ? counted(row) : null
    },
  }
}

/** Deletes windows that have ended; returns their number. */
export function expireLimitWindows(db: Database, now: () => number): Promise<number> {
  return sweepBelow(db, { table: 'limit_windows', key: ['key'], column: 'expire' }, now())
}
