import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { Fields } from '../http/pagination.ts'
import { partialSchema } from '../http/partial-schema.ts'
import type { Database } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import { maxCounted, type QueueName, queues } from './queue.ts'
import { claimedJobs, hasQueues, waitingJobs } from './waiting-jobs.ts'

const names = Object.keys(queues) as QueueName[]
const count = (description: string) => Type.Integer({ minimum: 0, maximum: maxCounted, description })

const QueueView = partialSchema(
  Type.Object({
    queue: Type.String({ enum: names }),
    waiting: count('Jobs that no process has claimed, at most 10,000'),
    repeated: count('Those of them that were claimed before: they failed or were interrupted, and run again'),
    running: count('Jobs that a process has claimed'),
    dueSince: Type.Optional(
      Type.String({ format: 'date-time', description: 'Since when the oldest waiting job has been due' }),
    ),
  }),
)

interface QueueRoutesOptions {
  db: Database
  now: () => number
}

/** Serves GET /api/queues: the numbers of jobs on all nodes, by queue. */
export const queueRoutes: FastifyPluginAsyncTypebox<QueueRoutesOptions> = async (app, { db, now }) => {
  const about = { tags: ['administration'], operationId: 'listQueues', summary: 'List the job queues' }
  const schema = { ...about, querystring: Type.Object({ fields: Fields }), response: { 200: Type.Array(QueueView) } }
  app.get('/api/queues', { config: { scope: 'admin', cache: 'private', fields: true }, schema }, async () => {
    if (!(await hasQueues(db))) return names.map((queue) => ({ queue, waiting: 0, repeated: 0, running: 0 }))
    return Promise.all(
      names.map(async (queue) => {
        const { waiting, dueSinceMs } = await waitingJobs(db, queue, now())
        const dueSince = dueSinceMs === null ? {} : { dueSince: iso(dueSinceMs) }
        return { queue, waiting, ...(await claimedJobs(db, queue)), ...dueSince }
      }),
    )
  })
}
