import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Task } from '../../db/tables.ts'
import { preconditionOf } from '../../http/conditional.ts'
import { isNarrowed } from '../../http/fields.ts'
import { applied } from '../../http/prefer.ts'
import { isFinished } from './tasks.ts'
import type { TaskWatch } from './watch.ts'

/**
 * The task, under `wait` (RFC 7240 §4.3) as it is when it has changed or the time is over. There is nothing to wait for
 * when it is finished, or when the client's entity tag shows that it has missed a change.
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
  const isNews = isFinished(task) || hasMissedChange(task, request)
  const change = isNews ? null : watch.change(task.id, task.revision, seconds * 1_000, leaving(reply))
  if (change === undefined) return task
  applied(reply, `wait=${seconds}`)
  if (change === null) return task
  await change
  return read()
}

/** Whether If-None-Match names other revisions only; the tag of a narrowed answer tells no revision. */
function hasMissedChange({ revision }: Task, request: FastifyRequest): boolean {
  const { differs = 'any' } = isNarrowed(request) ? {} : preconditionOf(request, false)
  return differs !== 'any' && !differs.includes(revision)
}

/** Aborted when the connection is closed. */
function leaving({ raw }: FastifyReply): AbortSignal {
  const abort = new AbortController()
  raw.once('close', () => abort.abort())
  return abort.signal
}
