import { sql } from 'kysely'
import type { Database, Queryable } from './database.ts'

/** How many rows one transaction of a sweep removes. */
export const maxSwept = 500

/**
 * Runs a step in one transaction after the other, as long as each removes as many rows as it may; others come between.
 * Returns how many rows there were.
 */
export async function inSteps(
  { write }: Database,
  remove: (tx: Queryable) => Promise<number>,
  atOnce: number = maxSwept,
): Promise<number> {
  for (let count = 0; ; ) {
    const removed = await write(remove)
    count += removed
    if (removed < atOnce) return count
  }
}

/** What is over by the value of one column, which has an index, in tables whose rows nothing else refers to. */
type Swept =
  | { table: 'request_counts'; key: ['day', 'client_id']; column: 'day' }
  | { table: 'version_calls'; key: ['version', 'client_id']; column: 'last_call_at' }
  | { table: 'quota_uses'; key: ['key', 'period']; column: 'period' }
  | { table: 'limit_windows'; key: ['key']; column: 'expire' }
  | { table: 'login_tries'; key: ['key']; column: 'ends_at' }
  | { table: 'invitations'; key: ['user_id']; column: 'expires_at' }

/** Removes the rows whose column is less than the value, in steps. */
export function sweepBelow(db: Database, { table, key, column }: Swept, value: string | number): Promise<number> {
  const columns = sql.join(key.map((name) => sql.ref(name)))
  const isOver = sql`${sql.ref(column)} < ${value}`
  const remove = sql`
    delete from ${sql.table(table)} where ${isOver} and (${columns}) in (
      select ${columns} from ${sql.table(table)} where ${isOver} limit ${sql.lit(maxSwept)})`
  return inSteps(db, async (tx) => Number((await remove.execute(tx)).numAffectedRows ?? 0))
}
