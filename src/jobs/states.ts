import { type ExpressionBuilder, type Selectable, sql } from 'kysely'
import { Problem } from '../http/problems/problem.ts'
import type { ClaimedJob } from '../queue/queue.ts'
import type { Database, Queryable } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import type { Tables } from '../storage/tables/tables.ts'
import type { DeclaredJobsTable } from '../storage/tables/tasks.ts'

export type JobRow = Selectable<DeclaredJobsTable>

/** The payload of a queue entry: a job, and the turn for which the entry was added. */
export interface QueuedJob {
  jobId: string
  turn: number
}

const unfinished = ['waiting', 'running'] as const

/** The key of a job that waits again; null if another job with the same name and key is waiting. */
const freeKey = sql<string | null>`case when not exists (
  select 1 from declared_jobs as other where other.name = declared_jobs.name and other.waiting_key = declared_jobs.key
) then declared_jobs.key end`

/**
 * Starts and counts an attempt. Returns undefined if the job has ended, if it has been put into the queue again, or if
 * `names` does not contain its name.
 */
export function beginJob(
  db: Database,
  { jobId, turn }: QueuedJob,
  names: readonly string[],
  nowMs: number,
): Promise<JobRow | undefined> {
  // A job that is already running was interrupted: its process ended or lost the lease.
  const interrupted = (row: ExpressionBuilder<Tables, 'declaredJobs'>) =>
    row.case().when('status', '=', 'running').then(1).else(0).end()
  return db.write((tx) =>
    tx
      .updateTable('declaredJobs')
      .set((row) => ({
        ...{ status: 'running', waitingKey: null, startedAt: iso(nowMs) },
        attempts: row('attempts', '+', 1),
        interruptions: row('interruptions', '+', interrupted(row)),
      }))
      .where('id', '=', jobId)
      .where('turn', '=', turn)
      .where('status', 'in', unfinished)
      .where('name', 'in', names)
      .returningAll()
      .executeTakeFirst(),
  )
}

/**
 * Removes the queue entry of a job that `beginJob` did not start. If this definition does not have the job, the job
 * waits until a process whose definition has it adds it to the queue again.
 */
export const setAside = (
  db: Database,
  { jobId, turn }: QueuedJob,
  { finish }: Pick<ClaimedJob, 'finish'>,
): Promise<void> =>
  db.write(async (tx) => {
    await tx
      .updateTable('declaredJobs')
      .set({ status: 'waiting', queued: 0, waitingKey: freeKey })
      .where('id', '=', jobId)
      .where('turn', '=', turn)
      .where('status', 'in', unfinished)
      .execute()
    await finish(tx)
  })

/** The outcome of an attempt: the job has ended, or is retried at `retryAtMs`. */
export type AttemptOutcome =
  | { status: 'completed' }
  | { status: 'failed'; error: string }
  | { status: 'waiting'; error: string; retryAtMs: number }

/**
 * Records the outcome of an attempt and removes the entry from the queue. If the job was cancelled, only removes the
 * entry and returns false. Throws `LeaseLost` if another process has taken over.
 */
export const recordOutcome = (
  db: Database,
  { id, attempts }: JobRow,
  { finish }: Pick<ClaimedJob, 'finish'>,
  outcome: AttemptOutcome,
  nowMs: number,
): Promise<boolean> =>
  db.write(async (tx) => {
    const changed = await tx
      .updateTable('declaredJobs')
      .set((row) => ({
        status: outcome.status,
        error: 'error' in outcome ? outcome.error : null,
        ...('error' in outcome && { failures: row('failures', '+', 1) }),
        ...('retryAtMs' in outcome
          ? { dueAt: iso(outcome.retryAtMs), queued: 0, waitingKey: freeKey }
          : { endedAt: iso(nowMs) }),
      }))
      .where('id', '=', id)
      .where('status', '=', 'running')
      .where('attempts', '=', attempts)
      .executeTakeFirst()
    await finish(tx)
    return changed.numUpdatedRows === 1n
  })

/** Returns a job to `waiting` after a shutdown interrupted its attempt. Its queue entry remains. */
export const interrupt = (db: Database, { id, attempts }: JobRow): Promise<unknown> =>
  db.write((tx) =>
    tx
      .updateTable('declaredJobs')
      .set({ status: 'waiting', waitingKey: freeKey })
      .where('id', '=', id)
      .where('status', '=', 'running')
      .where('attempts', '=', attempts)
      .execute(),
  )

/**
 * Returns the ids of the jobs whose attempts are current. Other jobs were cancelled, or were started again elsewhere.
 */
export async function currentOf(db: Database, rows: readonly Pick<JobRow, 'id' | 'attempts'>[]): Promise<Set<string>> {
  const ids = rows.map(({ id }) => id)
  const found = await db.read
    .selectFrom('declaredJobs')
    .select(['id', 'attempts'])
    .where('id', 'in', ids)
    .where('status', '=', 'running')
    .execute()
  const attempts = new Map(found.map((row) => [row.id, row.attempts]))
  return new Set(rows.filter((row) => attempts.get(row.id) === row.attempts).map(({ id }) => id))
}

const conflict = (detail: string) => new Problem('STATE_CONFLICT', detail)

/** Cancels a waiting or running job. Throws RESOURCE_NOT_FOUND or STATE_CONFLICT. */
export async function cancelJob(tx: Queryable, id: string, nowMs: number): Promise<JobRow> {
  const cancelled = await tx
    .updateTable('declaredJobs')
    .set({ status: 'cancelled', endedAt: iso(nowMs), waitingKey: null })
    .where('id', '=', id)
    .where('status', 'in', unfinished)
    .returningAll()
    .executeTakeFirst()
  if (cancelled) return cancelled
  const { status } = await jobOf(tx, id)
  throw conflict(`The job is ${status}: only a job that is waiting or running can be cancelled`)
}

/**
 * Returns a failed or cancelled job to `waiting`, with all of its retries. Throws RESOURCE_NOT_FOUND if there is no
 * such job, and STATE_CONFLICT if it has another status or if another job with the same name and key is waiting.
 */
export async function retryJob(tx: Queryable, id: string, nowMs: number): Promise<JobRow> {
  const retried = await tx
    .updateTable('declaredJobs')
    .set({ status: 'waiting', queued: 0, dueAt: iso(nowMs), waitingKey: freeKey })
    .set({ failures: 0, interruptions: 0, endedAt: null })
    .where('id', '=', id)
    .where('status', 'in', ['failed', 'cancelled'])
    .returningAll()
    .executeTakeFirst()
  if (retried === undefined) {
    const { status } = await jobOf(tx, id)
    throw conflict(`The job is ${status}: only a job that has failed or was cancelled can be retried`)
  }
  if (retried.key !== retried.waitingKey) throw conflict('Another job with the same key is waiting')
  return retried
}

/** Returns a job. Throws RESOURCE_NOT_FOUND. */
export async function jobOf(tx: Queryable, id: string): Promise<JobRow> {
  const row = await tx.selectFrom('declaredJobs').selectAll().where('id', '=', id).executeTakeFirst()
  if (row === undefined) throw new Problem('RESOURCE_NOT_FOUND', 'There is no such job')
  return row
}
