import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type TSchema, Type } from 'typebox'
import { instantParameter } from '../../http/headers/instant.ts'
import { documentedRules } from '../../http/partial-schema.ts'
import { malformedQuery } from '../../http/problems/problem.ts'
import { requesterOf } from '../../http/requester.ts'
import type { Database } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import { type HistoryRange, readMetricHistory } from './history.ts'
import { sampleMs } from './sampler.ts'

const count = (description: string) => Type.Integer({ minimum: 0, description, examples: [12] })
const ms = (description: string) => Type.Number({ minimum: 0, description, examples: [3.5] })
const orNull = <T extends TSchema & { type: string }>(schema: T) =>
  Type.Unsafe<number | null>({ ...schema, type: [schema.type, 'null'] })

const Point = Type.Object({
  at: Type.String({ format: 'date-time', description: 'The start of the step' }),
  seconds: Type.Integer({
    description: 'For how much of the step there are samples. Divide a count by it to get a rate',
    examples: [60],
  }),
  nodes: Type.Integer({ minimum: 1, description: 'How many nodes stored samples', examples: [1] }),
  succeeded: count('Responses with 1xx, 2xx or 3xx'),
  clientErrors: count('Responses with 4xx, except 429'),
  limited: count('Responses with 429'),
  serverErrors: count('Responses with 5xx'),
  unlogged: count('Responses that are missing in the request log'),
  p50Ms: orNull(ms('Half of the responses started within this time; null if there were none')),
  p99Ms: orNull(ms('99 % of the responses started within this time; null if there were none')),
  jobsWaiting: orNull(count('The most waiting jobs; null if the database did not respond')),
  oldestJobMs: orNull(count('The longest time for which a waiting job had been due')),
  delivered: count('Calls to webhooks that delivered an event'),
  deliveryFailures: count('Calls to webhooks that failed'),
  deliveriesWaiting: orNull(count('The most deliveries that had not ended')),
  oldestDeliveryMs: orNull(count('The longest time for which a delivery had been due')),
  loopDelayMs: ms('The largest 99th percentile of the delay of the event loop of a node'),
  memoryBytes: count('The largest resident memory of a node'),
  diskFreeBytes: orNull(count('The least free space in the data folder of a node')),
})

const HistoryView = Type.Object({
  from: Type.String({ format: 'date-time' }),
  to: Type.String({ format: 'date-time' }),
  step: Type.Integer({ description: 'The length of a step in seconds', examples: [60] }),
  points: Type.Array(Point, { description: 'Oldest first; a step without samples has no point' }),
})

const instant = (description: string, example: string) =>
  Type.Optional(
    Type.String({
      maxLength: 40,
      description,
      examples: [example],
      ...documentedRules({ format: 'date-time' }),
    }),
  )

const HistoryQuery = Type.Object({
  from: instant(
    'Start of the range; by default, an hour before its end, and at most 25 hours',
    '2026-03-01T12:00:00.000Z',
  ),
  to: instant('End of the range; by default, now', '2026-03-01T13:00:00.000Z'),
  step: Type.Optional(
    Type.Integer({
      description: 'Seconds per point, a multiple of 15; by default, so many that there are at most 240 points',
      examples: [60],
      ...documentedRules({ minimum: 15, maximum: 86_400 }),
    }),
  ),
})

const hourMs = 3_600_000
const maxRangeMs = 25 * hourMs
const [maxPoints, defaultPoints] = [1_500, 240]
const defaultSteps = [15, 30, 60, 120, 300, 600].map((seconds) => seconds * 1_000)

/** Returns the range of a request, extended to whole steps. Throws INVALID_INPUT. */
function rangeOf(query: { from?: string; to?: string; step?: number }, nowMs: number): HistoryRange {
  const to = instantParameter('to', query.to)
  const end = to === undefined ? nowMs : Date.parse(to)
  const from = instantParameter('from', query.from)
  const start = from === undefined ? end - hourMs : Date.parse(from)
  if (start > end) throw malformedQuery('from', 'must not be after `to`')
  if (end - start > maxRangeMs) throw malformedQuery('from', 'must be at most 25 hours before `to`')
  const stepMs = stepOf(query.step, end - start)
  return { fromMs: Math.floor(start / stepMs) * stepMs, toMs: Math.ceil(end / stepMs) * stepMs, stepMs }
}

function stepOf(seconds: number | undefined, lengthMs: number): number {
  const fitting = (points: number) => defaultSteps.find((ms) => lengthMs / ms <= points) as number
  if (seconds === undefined) return fitting(defaultPoints)
  const stepMs = seconds * 1_000
  if (stepMs < sampleMs || stepMs > 24 * hourMs || stepMs % sampleMs !== 0) {
    throw malformedQuery('step', 'must be a multiple of 15, from 15 to 86400')
  }
  if (lengthMs / stepMs > maxPoints) {
    throw malformedQuery('step', `must be at least ${fitting(maxPoints) / 1_000} for this range: ${maxPoints} points`)
  }
  return stepMs
}

/** Serves GET /api/metrics/history: the combined metrics of all nodes for the last day. */
export const metricsHistory: FastifyPluginAsyncTypebox<{ db: Database; now: () => number }> = async (app, options) => {
  const { db, now } = options
  const about = {
    tags: ['administration'],
    operationId: 'readMetricsHistory',
    summary: 'Read the metrics of the last day, of all nodes together',
  }
  const schema = { ...about, querystring: HistoryQuery, response: { 200: HistoryView } }
  const config = { scope: 'admin', cache: 'private' } as const
  app.get('/api/metrics/history', { config, schema }, async (request, reply) => {
    const range = rangeOf(request.query, now())
    const points = await readMetricHistory(db, range, requesterOf(request, reply))
    return { from: iso(range.fromMs), to: iso(range.toMs), step: range.stepMs / 1_000, points }
  })
}
