import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import type { Database } from '../storage/database.ts'
import { type Kind, kinds } from './counter.ts'
import { readTraffic, type Traffic, type TrafficWindow } from './view.ts'

const count = (description: string) => Type.Integer({ minimum: 0, description, examples: [12] })
const Instant = Type.String({ format: 'date-time' })
const counts = {
  requests: count('All responses'),
  succeeded: count('Responses with 1xx, 2xx or 3xx'),
  clientErrors: count('Responses with 4xx, except 429'),
  limited: count('Responses with 429'),
  serverErrors: count('Responses with 5xx'),
}

const TrafficView = Type.Object({
  from: Instant,
  to: Instant,
  total: Type.Object(counts),
  busiest: Type.Array(
    Type.Object({
      key: Type.Unsafe<string | null>({
        type: ['string', 'null'],
        description:
          'The client id, the user id or the address, or the network (/64) of an IPv6 address; null for all requests without a valid token, or those of clients that act for themselves',
        examples: ['partner'],
      }),
      name: Type.Optional(Type.String({ description: 'The name of the client or user', examples: ['Partner'] })),
      ...counts,
    }),
    { description: 'At most 100, busiest first' },
  ),
  others: Type.Object(counts, { description: 'All others together' }),
})

const TrafficQuery = Type.Object({
  by: Type.Optional(
    Type.String({
      enum: [...kinds],
      description: 'What to count by: `client` (the default), the user, or the address',
    }),
  ),
  window: Type.Optional(
    Type.String({
      enum: ['minute', 'hour', 'day'],
      description: 'The last complete minute (the default), 60 minutes, or 23 to 24 hours',
    }),
  ),
})

const cacheMs = 5_000

/** Serves GET /api/traffic: the busiest clients, users or addresses. All callers share one result for five seconds. */
export const trafficRoute: FastifyPluginAsyncTypebox<{ db: Database; now: () => number }> = async (app, options) => {
  const { db, now } = options
  const cached = new Map<string, { atMs: number; traffic: Promise<Traffic> }>()
  const read = ({ by = 'client', window = 'minute' }: Static<typeof TrafficQuery>): Promise<Traffic> => {
    const key = `${by} ${window}`
    const before = cached.get(key)
    if (before !== undefined && now() >= before.atMs && now() - before.atMs < cacheMs) return before.traffic
    const traffic = readTraffic(db, by as Kind, window as TrafficWindow, now())
    cached.set(key, { atMs: now(), traffic })
    traffic.catch(() => cached.delete(key))
    return traffic
  }
  const about = {
    tags: ['administration'],
    operationId: 'readTraffic',
    summary: 'Read the busiest clients, users or addresses of the last minute, hour or day',
  }
  const schema = { ...about, querystring: TrafficQuery, response: { 200: TrafficView } }
  const config = { scope: 'admin', cache: 'private' } as const
  app.get('/api/traffic', { config, schema }, async (request) => read(request.query))
}
