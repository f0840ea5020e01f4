import { recordEvent } from '../queue/events.ts'
import type { ClaimedJob, Queue } from '../queue/queue.ts'
import type { Database, Queryable } from '../storage/database.ts'
import { iso, newOrderedId, type RandomBytes } from '../storage/ids.ts'
import { type RowPrecondition, wherePrecondition } from '../storage/rows/precondition.ts'
import { nextRevision } from '../storage/rows/revision.ts'
import type { Task } from '../storage/tables/tables.ts'
import { taskOutcome } from './tasks.ts'

/** Dependencies for changing the state of tasks. */
export interface Transitions {
  db: Database
  queue: Queue
  now: () => number
  random: RandomBytes
}

/** From this attempt on, every error fails the task, except for shutdowns, outages and lost leases. */
export const maxFailures = 3
/**
 * Maximum number of attempts. It is higher than `maxFailures`, because a crash or a database outage is usually not
 * caused by the report. It is limited, because the report may nevertheless have caused the crash.
 */
export const maxAttempts = 6

const progressEveryMs = 1_000
const unfinished = ['pending', 'in_progress'] as const

/**
 * Starts and counts an attempt. Returns undefined if the task has finished, no longer exists, or has no attempts left.
 */
export function beginTask({ db, now }: Transitions, taskId: string): Promise<Task | undefined> {
  const at = iso(now())
  return db.write((tx) =>
    tx
      .updateTable('tasks')
      .set((row) => ({
        status: 'in_progress',
        attempts: row('attempts', '+', 1),
        startedAt: row.fn.coalesce('startedAt', row.val(at)),
        ...nextRevision('tasks', at),
      }))
      .where('id', '=', taskId)
      .where('status', 'in', unfinished)
      .where('attempts', '<', maxAttempts)
      .returningAll()
      .executeTakeFirst(),
  )
}

/**
 * Decrements the attempt count after a shutdown or an outage of the result store, unless the next attempt has started.
 */
export async function requeue({ db, now }: Transitions, { id, attempts }: Task): Promise<void> {
  const at = iso(now())
  await db.write((tx) =>
    tx
      .updateTable('tasks')
      .set((row) => ({ attempts: row('attempts', '-', 1), ...nextRevision('tasks', at) }))
      .where('id', '=', id)
      .where('status', '=', 'in_progress')
      .where('attempts', '=', attempts)
      .execute(),
  )
}

/** Returns a function that saves an attempt's progress: from 0 to 99, never decreasing, at most once per second. */
export function progressOf({ db, now }: Transitions, { id, attempts, progress }: Task) {
  let saved = progress
  let savedMs = now()
  return async (share: number): Promise<void> => {
    const reached = Math.min(Math.floor(share * 100), 99)
    if (reached <= saved || now() - savedMs < progressEveryMs) return
    saved = reached
    savedMs = now()
    const at = iso(savedMs)
    await db.write((tx) =>
      tx
        .updateTable('tasks')
        .set({ progress: reached, ...nextRevision('tasks', at) })
        .where('id', '=', id)
        .where('status', '=', 'in_progress')
        .where('attempts', '=', attempts)
        .execute(),
    )
  }
}

/** Returns whether this attempt is still current; the task may have been cancelled, deleted or taken over. */
export async function isCurrent({ db }: Transitions, { id, attempts }: Task): Promise<boolean> {
  const found = await db.read
    .selectFrom('tasks')
    .select('id')
    .where('id', '=', id)
    .where('status', '=', 'in_progress')
    .where('attempts', '=', attempts)
    .executeTakeFirst()
  return found !== undefined
}

/** A task's final state. */
export type Ending =
  | { status: 'failed'; errorCode: string; errorMessage: string }
  | ({ status: 'completed'; progress: 100 } & Pick<
      Task,
      'expiresAt' | 'rowCount' | 'sizeBytes' | 'sha256' | 'resultKey'
    >)

/**
 * Finishes a task, records its event and finishes its job in one transaction. If the task has already ended or no
 * longer exists, finishes only the job and returns false. Throws `LeaseLost` if another worker holds the job.
 */
export function finish(transitions: Transitions, job: ClaimedJob, taskId: string, ending: Ending): Promise<boolean> {
  return transitions.db.write(async (tx) => {
    const task = await finishIn(transitions, tx, taskId, ending, { trace: job.trace })
    await job.finish(tx)
    return task !== undefined
  })
}

export interface EndingOptions {
  precondition?: RowPrecondition
  /** The trace context of the request or job that ends the task. */
  trace?: string | null | undefined
}

/**
 * Finishes an unfinished task and records its event, in the caller's transaction. Returns undefined if the task has
 * already ended, no longer exists or does not meet the precondition.
 */
export async function finishIn(
  transitions: Transitions,
  tx: Queryable,
  taskId: string,
  ending: Ending,
  { precondition = {}, trace }: EndingOptions = {},
) {
  const { queue, now, random } = transitions
  const at = iso(now())
  const ended = tx.updateTable('tasks').set({ ...ending, completedAt: at, ...nextRevision('tasks', at) })
  const task = await wherePrecondition(ended, precondition)
    .where('id', '=', taskId)
    .where('status', 'in', unfinished)
    .returningAll()
    .executeTakeFirst()
  if (task) await recordEvent(tx, queue, { ...eventOf(task, newOrderedId('msg', random, at), at), trace })
  return task
}

const eventOf = (task: Task, id: string, createdAt: string) => ({
  id,
  type: `report.${task.status}`,
  ownerClient: task.ownerClient,
  ownerSubject: task.ownerSubject,
  body: taskOutcome(task),
  callbackUrl: task.webhookUrl,
  createdAt,
})
