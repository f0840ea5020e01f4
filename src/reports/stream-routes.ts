import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { download } from './download.ts'
import { streamEvents } from './event-stream.ts'
import { formats } from './formats/formats.ts'
import type { ReportsOptions } from './route-parts.ts'
import { about, ownTask } from './route-parts.ts'
import { TaskParams } from './schemas.ts'
import { readTask } from './tasks.ts'

type App = Parameters<FastifyPluginAsyncTypebox>[0]

/** Adds the route for a task's Server-Sent Events. */
export function eventsRoute(app: App, options: ReportsOptions): void {
  const example = 'id: 2\nevent: completed\ndata: {"taskId":"tsk_9mZ4qXb1TzqkPj0y7vWc2A","status":"completed"}\n\n'
  const events = Type.Unknown({
    description: 'Server-Sent Events, each with the task as JSON in its data',
    examples: [example],
  })
  const content = { 'text/event-stream': { schema: events } }
  const response = {
    200: { description: 'The progress and the end of the task', content },
    204: {},
  }
  const schema = about('watchReport', 'Watch a report task as Server-Sent Events', { params: TaskParams, response })
  const problems = ['RATE_LIMIT_EXCEEDED', 'SERVICE_UNAVAILABLE'] as const
  const find = (id: string) => readTask(options, id)
  const config = { scope: 'reports:read', cache: 'none', headers: ['X-Accel-Buffering'], problems } as const
  app.get('/api/reports/:taskId/events', { schema, config }, async (request, reply) =>
    streamEvents({ ...options, find }, await ownTask(options, request), request, reply),
  )
}

/** Adds the route for a task's result. */
export function downloadRoute(app: App, options: ReportsOptions): void {
  const file = { schema: Type.String({ format: 'binary' }) }
  // Generated clients use the first media type, which is binary so that it fits any format.
  const types = ['application/octet-stream', ...[...formats.values()].map(({ mediaType }) => mediaType)]
  const content = Object.fromEntries(types.map((type) => [type, file]))
  const response = {
    200: { description: 'The result', content },
    206: { description: 'The requested range of the result', content },
  }
  const schema = about('downloadReport', 'Download the result of a report', { params: TaskParams, response })
  const problems = [
    'TASK_NOT_COMPLETED',
    'TASK_FAILED',
    'RESULT_EXPIRED',
    'RATE_LIMIT_EXCEEDED',
    'SERVICE_UNAVAILABLE',
  ] as const
  // The result exists only in the requested format, so there is no content negotiation.
  const config = { scope: 'reports:read', cache: 'none', produces: [], problems } as const
  app.get('/api/reports/:taskId/download', { schema, config }, async (request, reply) =>
    download(options, await ownTask(options, request), request, reply),
  )
}
