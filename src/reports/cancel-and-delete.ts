import type { ResultStore } from '../files/store.ts'
import { Problem, preconditionFailed } from '../http/problems/problem.ts'
import type { Queryable } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import { wherePrecondition } from '../storage/rows/precondition.ts'
import { nextRevision } from '../storage/rows/revision.ts'
import type { Task } from '../storage/tables/tables.ts'
import { type Ending, type EndingOptions, finishIn, type Transitions } from './task-states.ts'
import { isFinished } from './tasks.ts'

const cancelled: Ending = {
  status: 'failed',
  errorCode: 'TASK_CANCELLED',
  errorMessage: 'The task was cancelled',
}

const outdated = () => preconditionFailed('The task')

/**
 * Cancels an unfinished task and records its event; the worker that processes the task notices within a second. Throws
 * TASK_ALREADY_FINISHED, which takes precedence over preconditions, or PRECONDITION_FAILED.
 */
export async function cancel(
  transitions: Transitions,
  tx: Queryable,
  { id }: Pick<Task, 'id'>,
  options: EndingOptions = {},
): Promise<Task> {
  const task = await finishIn(transitions, tx, id, cancelled, options)
  if (task) return task
  const found = await tx.selectFrom('tasks').select('status').where('id', '=', id).executeTakeFirst()
  if (found && !isFinished(found)) throw outdated()
  throw new Problem('TASK_ALREADY_FINISHED', 'The task has already ended: there is nothing to cancel')
}

/**
 * Deletes a task and its result; cancels an unfinished task first. Throws PRECONDITION_FAILED if the task does not meet
 * the precondition or no longer exists. The result is marked as expired before its file is removed; after a crash
 * between the two steps, the sweep removes the rest.
 */
export async function deleteTask(
  transitions: Transitions & { results: ResultStore },
  { id }: Pick<Task, 'id'>,
  { precondition = {}, trace }: EndingOptions,
): Promise<void> {
  const { db, results, now } = transitions
  const at = iso(now())
  const task = await db.write(async (tx) => {
    const marking = tx.updateTable('tasks').set({ expiresAt: at, ...nextRevision('tasks', at) })
    const marked = await wherePrecondition(marking.where('id', '=', id), precondition)
      .returningAll()
      .executeTakeFirst()
    if (marked && !isFinished(marked)) await finishIn(transitions, tx, id, cancelled, { trace })
    return marked
  })
  if (!task) throw outdated()
  if (task.resultKey !== null) await results.remove(task.resultKey)
  await db.write((tx) => tx.deleteFrom('tasks').where('id', '=', id).execute())
}
