import type { Queue } from '../queue/queue.ts'
import type { Database } from '../storage/database.ts'
import { iso, type RandomBytes } from '../storage/ids.ts'
import { sweepBelow } from '../storage/sweep.ts'
import { cancellations } from './cancellations.ts'
import { putIntoQueue } from './enqueue.ts'
import { type JobRunOptions, runJobs } from './run.ts'

export interface JobWorkOptions extends Omit<JobRunOptions, 'cancellations'> {
  queue: Queue
  random: RandomBytes
  /** Called with the error if the periodic check fails; the check runs again a second later. */
  onError: (error: unknown) => void
}

/** The background work of declared jobs. */
export interface JobWork {
  /** Puts due jobs into the queue, adds the jobs of schedules, and aborts cancelled attempts. */
  check: () => Promise<void>
  stop: () => void
}

const checkEveryMs = 1_000
/** The largest number of jobs that are put into the queue in one transaction. */
const maxBatch = 100

/** Starts running jobs in this process. Does nothing if the definition has no jobs. */
export function startJobs(options: JobWorkOptions): JobWork {
  const { db, queue, jobs, onError } = options
  if (jobs.jobs.size === 0) return { check: async () => {}, stop: () => {} }
  const watched = cancellations(db)
  queue.work('job.run', runJobs({ ...options, cancellations: watched }))
  const check = async () => {
    await watched.check()
    // Loaded on demand, because few services need the cron parser.
    if (jobs.schedules.length > 0) {
      await (await import('./schedules.ts')).tickSchedules({ ...options, schedules: jobs.schedules })
    }
    while ((await queueDue(options)) === maxBatch);
  }
  let [isChecking, isStopped] = [false, false]
  const timer = setInterval(async () => {
    if (isChecking) return
    isChecking = true
    // After `stop`, the database may already be closed, so errors are ignored.
    await check().catch((error) => isStopped || onError(error))
    isChecking = false
  }, checkEveryMs)
  const stop = () => {
    isStopped = true
    clearInterval(timer)
  }
  return { check, stop }
}

/** Puts up to `maxBatch` due jobs of this definition into the queue; returns their number. */
async function queueDue({ db, queue, jobs, now }: Pick<JobWorkOptions, 'db' | 'queue' | 'jobs' | 'now'>) {
  const due = (from: Database['read']) =>
    from
      .selectFrom('declaredJobs')
      .select('id')
      .where('status', '=', 'waiting')
      .where('queued', '=', 0)
      .where('dueAt', '<=', iso(now()))
      .where('name', 'in', [...jobs.jobs.keys()])
      .orderBy('dueAt')
      .limit(maxBatch)
  if ((await due(db.read).execute()).length === 0) return 0
  return db.write(async (tx) => {
    const rows = await tx
      .updateTable('declaredJobs')
      .set((row) => ({ queued: 1, turn: row('turn', '+', 1) }))
      .where('id', 'in', due(tx).modifyEnd(db.engine.lockFreeRows))
      .returning(['id', 'turn', 'trace'])
      .execute()
    for (const row of rows) await putIntoQueue(queue, tx, row)
    return rows.length
  })
}

/** Removes jobs that ended longer ago than `keptSeconds`; returns their number. */
export const expireJobs = (db: Database, now: () => number, keptSeconds: number): Promise<number> =>
  sweepBelow(db, { table: 'declared_jobs', key: ['id'], column: 'ended_at' }, iso(now() - keptSeconds * 1_000))
