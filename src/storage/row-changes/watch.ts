import { sql } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import { iso, type RandomBytes } from '../ids.ts'

export interface WatchOptions {
  db: Database
  now: () => number
  random: RandomBytes
  /** How long changes stay in the log, in ms. */
  historyMs: number
}

/** How much longer a watch lasts than changes stay in the log, in ms. */
const marginMs = 60_000

/**
 * Starts logging the changes to a resource, or extends the existing watch. Returns the `seq` from which the log is
 * complete for this resource. Rejects with a lock timeout if transactions in progress take too long.
 */
export async function watchRows({ db, now, random, historyMs }: WatchOptions, noun: string): Promise<number> {
  const until = iso(now() + historyMs + marginMs)
  const renew = (tx: Queryable) =>
    tx.updateTable('rowWatches').set({ until }).where('noun', '=', noun).returning('since').executeTakeFirst()
  const renewed = await db.write(renew)
  if (renewed) return renewed.since
  return db.write(async (tx) => {
    // A transaction that has found no watch holds a lock on the table, and does not log its changes. Wait for all such
    // transactions.
    if (!db.engine.commitsInOrder) await sql`lock table row_watches in access exclusive mode`.execute(tx)
    const added = await renew(tx)
    if (added) return added.since
    const { seq: since } = await tx
      .insertInto('rowChanges')
      .values({ tag: random(6).toString('base64url'), changes: '[]', createdAt: iso(now()) })
      .returning('seq')
      .executeTakeFirstOrThrow()
    await tx.insertInto('rowWatches').values({ noun, since, until }).execute()
    return since
  })
}

/** The maximum number of entries deleted in one transaction. */
const maxExpired = 300

/**
 * Ends expired watches. Deletes entries older than `historyMs`, except the last one; returns the number of deleted
 * entries.
 */
export async function expireChanges(db: Database, now: () => number, historyMs: number): Promise<number> {
  await db.write((tx) => tx.deleteFrom('rowWatches').where('until', '<', iso(now())).execute())
  const before = iso(now() - historyMs)
  for (let count = 0; ; ) {
    const removed = await db.write(async (tx) => {
      // The last entry stays, so that the log always has a position.
      const older = tx.selectFrom('rowChanges').select(['seq', 'createdAt'])
      const last = tx.selectFrom('rowChanges').select(({ fn }) => fn.max('seq').as('seq'))
      const oldest = await older.where('seq', '<', last).orderBy('seq').limit(maxExpired).execute()
      const expired = oldest.filter(({ createdAt }) => createdAt < before).map(({ seq }) => seq)
      if (expired.length > 0) await tx.deleteFrom('rowChanges').where('seq', 'in', expired).execute()
      return expired.length
    })
    count += removed
    if (removed < maxExpired) return count
  }
}
