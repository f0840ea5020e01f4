import type { FastifyRequest } from 'fastify'
import type { Static, TSchema } from 'typebox'
import type { SlotLimiter } from '../files/slots.ts'
import type { ResultStore } from '../files/store.ts'
import { type Caller, callerOf } from '../http/policies/authenticate.ts'
import { Problem } from '../http/problems/problem.ts'
import type { Queue } from '../queue/queue.ts'
import type { Database } from '../storage/database.ts'
import type { RandomBytes } from '../storage/ids.ts'
import type { Task } from '../storage/tables/tables.ts'
import type { ReportAccess, ServedReport } from './report-types.ts'
import type { TaskParams } from './schemas.ts'
import { findTask, maySee, type TaskStore } from './tasks.ts'
import type { TaskWatch } from './wait-for-change.ts'

/** Dependencies and limits of the report routes. */
export interface ReportsOptions {
  db: Database
  queue: Queue
  results: ResultStore
  kinds: readonly ServedReport[]
  /** The access rules of resources; without them, restricted reports contain no rows. */
  access?: ReportAccess
  now: () => number
  random: RandomBytes
  /** How long a task is retained after it ends, in seconds. */
  taskSeconds: number
  /** Limits concurrent downloads. If omitted, there is no limit. */
  downloads?: SlotLimiter
  /** Lets requests wait for a task to change. If omitted, requests do not wait. */
  watch?: TaskWatch
  /** Checks whether a request's `webhookUrl` may be called. If omitted, every address is accepted. */
  checkCallback?: (url: string) => Promise<{ ok: true } | { ok: false; reason: string }>
}

type Schemas = { params?: TSchema; querystring?: TSchema; body?: TSchema; response: object }

/** Returns the schema of a report route, with its operation id and summary. */
export const about = <T extends Schemas>(operationId: string, summary: string, schemas: T) => ({
  operationId,
  summary,
  tags: ['reports'],
  ...schemas,
})

/** Returns the task identified by the path. Throws RESOURCE_NOT_FOUND unless the caller may see it. */
export async function ownTask(
  store: TaskStore & Pick<ReportsOptions, 'kinds'>,
  request: FastifyRequest,
): Promise<Task> {
  const { taskId } = request.params as Static<typeof TaskParams>
  const task = await findTask(store, taskId, callerOf(request))
  if (!task || isOutdated(store, task)) throw new Problem('RESOURCE_NOT_FOUND', 'There is no such task')
  return task
}

/**
 * Returns true if access rules apply to the report now but did not apply when it was requested. The result may then
 * contain rows that the rules would hide.
 */
const isOutdated = ({ kinds }: Pick<ReportsOptions, 'kinds'>, { reportType, scopes }: Task): boolean =>
  scopes === null && kinds.some(({ name, restricted }) => name === reportType && restricted !== undefined)

/** Returns whether a list of all tasks must hide a task's details from the caller. */
export const isPrivate = (store: Pick<ReportsOptions, 'kinds'>, task: Task, caller: Caller): boolean =>
  !maySee(task, caller) || isOutdated(store, task)
