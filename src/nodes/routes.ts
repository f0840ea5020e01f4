import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { addLink } from '../http/headers/vary.ts'
import { CursorText, Fields, linkHeader, PageLimit } from '../http/pagination.ts'
import { partialSchema } from '../http/partial-schema.ts'
import type { Database } from '../storage/database.ts'
import { nodePage } from './list.ts'

const path = '/api/nodes'
const Instant = (description: string) => Type.String({ format: 'date-time', description })

const NodeSchema = partialSchema(
  Type.Object({
    id: Type.String({ description: 'Chosen at each start', examples: ['nod_3q2-7wAAAAAAAAAAAAAAAA'] }),
    self: Type.Boolean({ description: 'Whether this node responds' }),
    status: Type.String({
      enum: ['live', 'lost'],
      description: '`lost`: no heartbeat for 40 seconds. The row is removed after a day',
    }),
    hostname: Type.String({ examples: ['node-a'] }),
    pid: Type.Integer({ description: 'The process id', examples: [4242] }),
    version: Type.String({ description: 'The release of the service', examples: ['1.0.0'] }),
    roles: Type.Array(Type.String({ enum: ['api', 'auth', 'worker'] })),
    baseUrl: Type.String({ examples: ['https://api.example.com'] }),
    schemaVersion: Type.String({
      description: 'The newest migration that the release knows',
      examples: ['0031-nodes'],
    }),
    definition: Type.String({
      description: 'A digest of the resources and their fields',
      examples: ['5f1d2c3b4a596877'],
    }),
    clockAheadMs: Type.Integer({
      description: "How far the machine's clock is ahead of the database's clock; negative if it is behind",
      examples: [0],
    }),
    startedAt: Instant('When the process started'),
    heartbeatAt: Instant('The last heartbeat; there is one every 10 seconds'),
  }),
)

export interface NodeRoutesOptions {
  db: Database
  now: () => number
  /** The id of this process in the table `nodes`. */
  nodeId?: string
}

/** Serves GET /api/nodes: the processes that use the database. */
export const nodeRoutes: FastifyPluginAsyncTypebox<NodeRoutesOptions> = async (app, { db, now, nodeId }) => {
  const about = { tags: ['administration'], operationId: 'listNodes', summary: 'List the nodes, newest first' }
  const schema = {
    ...about,
    querystring: Type.Object({ limit: PageLimit, cursor: CursorText, fields: Fields }),
    response: { 200: Type.Array(NodeSchema) },
  }
  const config = { scope: 'admin', cache: 'private', fields: true } as const
  app.get(path, { config, schema }, async (request, reply) => {
    const { nodes, cursors } = await nodePage(db, request.query, now(), nodeId)
    addLink(reply, linkHeader(app.prefix + path, request.query, cursors))
    return nodes
  })
}
