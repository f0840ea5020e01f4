import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Task } from '../../db/tables.ts'
import { preconditionOf } from '../../http/conditional.ts'
import { isNarrowed } from '../../http/fields.ts'
import { callerOf } from '../../http/identify.ts'
import { applied } from '../../http/prefer.ts'
import { responseEnd } from '../../http/response-end.ts'
import { isFinished } from './tasks.ts'
import type { IsMet, TaskWatch } from './watch.ts'

/**
 * The task, under `wait` (RFC 7240 §4.3) as it is when it has ended or the time is over; with If-None-Match as it is after
 * its next change. There is nothing to wait for when it has ended, or when the client's entity tag shows that it has
 * missed a change. Where the account or the process has too many waiting requests the preference is ignored, as RFC 7240
 * §2 allows: the task is answered at once, and `Preference-Applied` does not name it.
 */
export async function newsOf(
  task: Task,
  read: () => Promise<Task>,
  request: FastifyRequest,
  reply: FastifyReply,
  watch: TaskWatch | undefined,
): Promise<Task> {
  const seconds = request.preferences?.wait
  if (seconds === undefined || watch === undefined) return task
  if (isFinished(task) || hasMissedChange(task, request)) {
    applied(reply, `wait=${seconds}`)
    return task
  }
  const end = responseEnd(reply)
  if (watch.places.take(callerOf(request), end)) return task
  const waiting = watch.until(task.id, awaited(task, request), seconds * 1_000, end)
  if (waiting === undefined) return task
  applied(reply, `wait=${seconds}`)
  await waiting
  return read()
}

/** A client that sends the tag of what it has waits for anything else, every other one for the end. */
function awaited({ revision }: Task, { headers }: FastifyRequest): IsMet {
  if (headers['if-none-match'] === undefined) return ({ isFinished }) => isFinished
  return (state) => state.revision !== revision
}

/** Whether If-None-Match names other revisions only; the tag of a narrowed answer tells no revision. */
function hasMissedChange({ revision }: Task, request: FastifyRequest): boolean {
  const { differs = 'any' } = isNarrowed(request) ? {} : preconditionOf(request, false)
  return differs !== 'any' && !differs.includes(revision)
}
