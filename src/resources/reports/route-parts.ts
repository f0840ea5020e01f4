import type { FastifyRequest } from 'fastify'
import type { Static, TSchema } from 'typebox'
import type { Task } from '../../db/tables.ts'
import { callerOf } from '../../http/identify.ts'
import { Problem } from '../../http/problem.ts'
import type { TaskParams } from './schemas.ts'
import { findTask, type TaskStore } from './tasks.ts'

type Schemas = { params?: TSchema; querystring?: TSchema; body?: TSchema; response: object }

/** The schema of a route about reports. */
export const about = <T extends Schemas>(operationId: string, summary: string, schemas: T) => ({
  operationId,
  summary,
  tags: ['reports'],
  ...schemas,
})

/** The task that the path names. Throws RESOURCE_NOT_FOUND unless the caller may see it. */
export async function ownTask(store: TaskStore, request: FastifyRequest): Promise<Task> {
  const { taskId } = request.params as Static<typeof TaskParams>
  const task = await findTask(store, taskId, callerOf(request))
  if (!task) throw new Problem('RESOURCE_NOT_FOUND', 'There is no such task')
  return task
}
