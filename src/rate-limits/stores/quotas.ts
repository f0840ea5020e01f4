import { type RawBuilder, sql } from 'kysely'
import type { Database, PreparedStatement } from '../../storage/database.ts'
import { sweepBelow } from '../../storage/sweep.ts'
import { inBatches } from './coalesce.ts'

/** The number of calls for a key in a period. */
export type QuotaUse = [key: string, period: string, calls: number]

/** Monthly usage stored in the database; exact for any number of processes. */
export interface QuotaUses {
  /** Atomically counts a call unless the limit is reached; `used` is the resulting total. */
  take: (key: string, period: string, limit: number) => Promise<{ used: number; isGranted: boolean }>
  back: (key: string, period: string) => Promise<void>
  look: (key: string, period: string) => number | Promise<number>
  /** Adds uses; returns the resulting totals in the same order. */
  add: (uses: readonly QuotaUse[]) => Promise<number[]>
  /** Raises each total to at least the given value. */
  raise: (uses: readonly QuotaUse[]) => Promise<void>
}

interface Row {
  used: number
  granted: number
}

/** The cast gives the parameter a type; otherwise, it would not be compared as a number. */
const number = sql`cast(${0} as integer)`

/**
 * The number of calls granted: the number requested, capped at what is left. Parameters: limit, calls, calls, limit,
 * limit.
 */
const given = sql`case when ${number} - quota_uses.used >= ${number} then ${number}
  when ${number} > quota_uses.used then ${number} - quota_uses.used else 0 end`

const insert = (change: RawBuilder<unknown>) => sql<Row>`
  insert into quota_uses (key, period, used, granted) values (${''}, ${''}, ${number}, ${number})
  on conflict (key, period) do update set ${change} returning used, granted`

const statements = {
  add: insert(sql`used = quota_uses.used + excluded.used`),
  raise: insert(sql`used = case when quota_uses.used < excluded.used then excluded.used else quota_uses.used end`),
  take: insert(sql`used = quota_uses.used + ${given}, granted = ${given}`),
  back: sql<Row>`update quota_uses set used = used - 1 where key = ${''} and period = ${''} and used > 0 returning used, granted`,
  look: sql<Row>`select used, granted from quota_uses where key = ${''} and period = ${''}`,
}

/** Counts quota usage in the database. Concurrent `take` calls for a key share a transaction. */
export function quotaUses(db: Database): QuotaUses {
  const prepared = (statement: RawBuilder<Row>): PreparedStatement<Row> =>
    db.prepare({ compile: () => statement.compile(db.read) })
  const [add, raise, take] = [prepared(statements.add), prepared(statements.raise), prepared(statements.take)]
  const [back, look] = [prepared(statements.back), prepared(statements.look)]
  const each = (statement: PreparedStatement<Row>, uses: readonly QuotaUse[]) =>
    db.write(async (tx) => {
      const sums = new Map<QuotaUse, number>()
      // Sorting prevents deadlocks between processes.
      for (const use of uses.toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1))) {
        const [key, period, calls] = use
        const { rows } = await statement.in(tx, [key, period, calls, calls])
        sums.set(use, Number(rows[0]?.used))
      }
      return uses.map((use) => sums.get(use) as number)
    })
  const takeMany = inBatches(async (id: string, calls) => {
    const [key, period, limit] = JSON.parse(id) as [string, string, number]
    const first = Math.min(calls, limit)
    const share = [limit, calls, calls, limit, limit]
    const { rows } = await db.write((tx) => take.in(tx, [key, period, first, first, ...share, ...share]))
    return { used: Number(rows[0]?.used), granted: Number(rows[0]?.granted) }
  })
  return {
    add: (uses) => each(add, uses),
    raise: async (uses) => void (await each(raise, uses)),
    take: async (key, period, limit) => {
      const { result, index } = await takeMany(JSON.stringify([key, period, limit]))
      const isGranted = index < result.granted
      return { used: isGranted ? result.used - result.granted + index + 1 : result.used, isGranted }
    },
    back: async (key, period) => void (await db.write((tx) => back.in(tx, [key, period]))),
    look: (key, period) => {
      const rows = look.all([key, period])
      return rows instanceof Promise ? rows.then(usedIn) : usedIn(rows)
    },
  }
}

const usedIn = (rows: Row[]) => Number(rows[0]?.used ?? 0)
const nameOf = ([key, period]: QuotaUse) => `${key} ${period}`

/** Deletes usage older than the month before last; returns the number of deleted rows. */
export function expireQuotaUses(db: Database, now: () => number): Promise<number> {
  const date = new Date(now())
  const oldest = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - 2)).toISOString().slice(0, 7)
  return sweepBelow(db, { table: 'quota_uses', key: ['key', 'period'], column: 'period' }, oldest)
}
