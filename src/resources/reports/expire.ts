import { iso } from '../../db/iso.ts'
import type { Database } from '../../db/open.ts'
import type { ResultStore } from '../../results/store.ts'

export interface ExpireOptions {
  db: Database
  results: ResultStore
  now: () => number
  /** How long the record of a finished task is kept. */
  taskSeconds: number
}

const batch = 500

/** Removes results that have expired and records of tasks that ended long ago; returns how many of both. */
export async function expireReports(options: ExpireOptions): Promise<number> {
  return (await expireResults(options)) + (await removeOldTasks(options))
}

/** The file goes first: a crash in between leaves a record that is looked at again. */
async function expireResults({ db, results, now }: ExpireOptions): Promise<number> {
  const expired = await db.read
    .selectFrom('tasks')
    .select(['id', 'resultKey'])
    .where('resultKey', 'is not', null)
    .where('expiresAt', '<=', iso(now()))
    .limit(batch)
    .execute()
  for (const { id, resultKey } of expired) {
    await results.remove(resultKey as string)
    await db.write((tx) => tx.updateTable('tasks').set({ resultKey: null }).where('id', '=', id).execute())
  }
  return expired.length
}

async function removeOldTasks({ db, now, taskSeconds }: ExpireOptions): Promise<number> {
  const { numDeletedRows } = await db.write((tx) =>
    tx
      .deleteFrom('tasks')
      .where('id', 'in', (query) =>
        query
          .selectFrom('tasks')
          .select('id')
          .where('status', 'in', ['completed', 'failed'])
          .where('resultKey', 'is', null)
          .where('completedAt', '<=', iso(now() - taskSeconds * 1_000))
          .limit(batch),
      )
      .executeTakeFirst(),
  )
  return Number(numDeletedRows)
}
