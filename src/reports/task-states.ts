import { recordEvent } from '../queue/events.ts'
import type { Job, Queue } from '../queue/queue.ts'
import type { Database, Queryable } from '../storage/database.ts'
import { iso, newOrderedId, type RandomBytes } from '../storage/ids.ts'
import { nextRevision } from '../storage/rows/revision.ts'
import { type RowPrecondition, wherePrecondition } from '../storage/rows/rows.ts'
import type { Task } from '../storage/tables/tables.ts'
import { outcomeOf } from './tasks.ts'

/** What a worker moves a task with. */
export interface Transitions {
  db: Database
  queue: Queue
  now: () => number
  random: RandomBytes
}

/** How often a task is tried before it fails. */
export const maxAttempts = 3

const progressEveryMs = 1_000
const unfinished = ['pending', 'in_progress'] as const

/** Starts an attempt and counts it; undefined when the task is finished, gone, or has had all its attempts. */
export function begin({ db, now }: Transitions, taskId: string): Promise<Task | undefined> {
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

/** Takes an attempt back that a stopping service cut short, unless the next one has begun already. */
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

/** Shows the share of an attempt that is done: 0 to 99, never lower than before, at most once a second. */
export function progressOf({ db, now }: Transitions, { id, attempts, progress }: Task) {
  let shown = progress
  let shownMs = now()
  return async (share: number): Promise<void> => {
    const reached = Math.min(Math.floor(share * 100), 99)
    if (reached <= shown || now() - shownMs < progressEveryMs) return
    shown = reached
    shownMs = now()
    const at = iso(shownMs)
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

/** Whether this very attempt is still what the task waits for: it may have been cancelled, removed or taken over. */
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

/** What a task ends with. */
export type Ending =
  | { status: 'failed'; errorCode: string; errorMessage: string }
  | ({ status: 'completed'; progress: 100 } & Pick<
      Task,
      'expiresAt' | 'rowCount' | 'sizeBytes' | 'sha256' | 'resultKey'
    >)

/**
 * Ends a task, tells of it and finishes its job, all or nothing. False when the task had ended otherwise or is gone:
 * then only the job is finished. Throws `LeaseLost` when another worker holds the job by now.
 */
export function finish(transitions: Transitions, job: Job, taskId: string, ending: Ending): Promise<boolean> {
  return transitions.db.write(async (tx) => {
    const task = await finishIn(transitions, tx, taskId, ending)
    await job.finish(tx)
    return task !== undefined
  })
}

/**
 * Ends an unfinished task and tells of it, inside the caller's transaction; undefined when it had ended, is gone or does
 * not meet the demands.
 */
export async function finishIn(
  transitions: Transitions,
  tx: Queryable,
  taskId: string,
  ending: Ending,
  demands: RowPrecondition = {},
) {
  const { queue, now, random } = transitions
  const at = iso(now())
  const ended = tx.updateTable('tasks').set({ ...ending, completedAt: at, ...nextRevision('tasks', at) })
  const task = await wherePrecondition(ended, demands)
    .where('id', '=', taskId)
    .where('status', 'in', unfinished)
    .returningAll()
    .executeTakeFirst()
  if (task) await recordEvent(tx, queue, eventOf(task, newOrderedId('msg', random, at), at))
  return task
}

const eventOf = (task: Task, id: string, createdAt: string) => ({
  id,
  type: `report.${task.status}`,
  ownerClient: task.ownerClient,
  ownerSubject: task.ownerSubject,
  body: outcomeOf(task),
  callbackUrl: task.webhookUrl,
  createdAt,
})
