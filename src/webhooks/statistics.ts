import { sql } from 'kysely'
import { Type } from 'typebox'
import { Fields } from '../http/pagination.ts'
import { partialSchema } from '../http/partial-schema.ts'
import type { Database } from '../storage/database.ts'
import { sweepBelow } from '../storage/sweep.ts'
import type { Webhook } from '../storage/tables/tables.ts'
import { hourMs, latencyBounds, latencyClasses, startOfHour } from './dispatch/attempt-log.ts'

const shownHours = 24
const maxListed = 100
const count = (description: string) => Type.Integer({ minimum: 0, description })
const p95Ms = Type.Optional(
  count('The latency of 95 % of the attempts was at most this, estimated; absent without any'),
)

/** Query parameters for webhook statistics. */
export const StatisticsQuery = Type.Object({
  ids: Type.Optional(
    Type.String({
      // Each id has 26 characters and a comma. The pattern sets no maximum, because Go rejects large nested counts.
      maxLength: maxListed * 27,
      pattern: '^whk_[A-Za-z0-9_-]{22}(,whk_[A-Za-z0-9_-]{22})*$',
      description: `Ids of up to ${maxListed} webhooks, separated by commas; by default your newest ones`,
      examples: ['whk_Q2hhcmxlcyBCYWJiYWdlXw'],
    }),
  ),
  fields: Fields,
})

/** The attempts of a webhook's deliveries in the last 24 hours. */
export const StatisticsView = partialSchema(
  Type.Object({
    webhookId: Type.String({ examples: ['whk_Q2hhcmxlcyBCYWJiYWdlXw'] }),
    failingSince: Type.Optional(
      Type.String({ format: 'date-time', description: 'When the first call failed after the last success' }),
    ),
    consecutiveFailures: count('Failed attempts since the last success'),
    attempts: count('Attempts that ended in these 24 hours, without tests'),
    succeeded: count('Attempts that the endpoint accepted'),
    failed: count('All other attempts'),
    successRate: Type.Optional(
      Type.Number({ minimum: 0, maximum: 1, description: 'The share of succeeded attempts; absent without any' }),
    ),
    p50Ms: Type.Optional(count('The median latency, estimated; absent without any attempt')),
    p95Ms,
    hours: Type.Array(
      Type.Object({
        start: Type.String({ format: 'date-time' }),
        succeeded: count('Succeeded'),
        failed: count('Failed'),
        p95Ms,
      }),
      { description: 'The same by hour (UTC), oldest first; the last hour is the current one' },
    ),
  }),
)

type Counts = { webhookId: string; hour: string; succeeded: number; failed: number; latencies: string }

/** Returns the statistics of the webhooks for the last 24 hours, in the given order. Reads at most 25 rows for each. */
export async function statisticsOf(
  { read }: Pick<Database, 'read'>,
  webhooks: readonly Pick<Webhook, 'id' | 'failingSince'>[],
  nowMs: number,
) {
  if (webhooks.length === 0) return []
  const hours = Array.from({ length: shownHours }, (_, at) => startOfHour(nowMs - (shownHours - 1 - at) * hourMs))
  const ids = sql.join(webhooks.map(({ id }) => id))
  const latencies = sql.raw(latencyClasses.join(` || ',' || `))
  const { rows } = await sql<Counts>`
    select webhook_id, hour, succeeded, failed, ${latencies} as latencies from webhook_statistics
    where hour in (${sql.join(hours)}) and webhook_id in (${ids})`.execute(read)
  const { rows: queues } = await sql<{ lane: string; failures: number }>`
    select lane, failures from delivery_lanes where lane in (${ids})`.execute(read)
  const byWebhook = Map.groupBy(rows, ({ webhookId }) => webhookId)
  const failures = new Map(queues.map((queue) => [queue.lane, queue.failures]))
  return webhooks.map(({ id, failingSince }) => ({
    webhookId: id,
    ...(failingSince !== null && { failingSince }),
    consecutiveFailures: failures.get(id) ?? 0,
    ...summaryOf(byWebhook.get(id) ?? []),
    hours: hoursOf(hours, byWebhook.get(id) ?? []),
  }))
}

/**
 * Adds up the counts of several hours. Includes the success rate and the latencies if there was at least one attempt.
 */
function summaryOf(rows: readonly Counts[]) {
  const [succeeded, failed] = [sum(rows.map((row) => row.succeeded)), sum(rows.map((row) => row.failed))]
  const attempts = succeeded + failed
  if (attempts === 0) return { attempts, succeeded, failed }
  const parts = rows.map(({ latencies }) => latencies.split(',').map(Number))
  const counts = latencyBounds.map((_, at) => sum(parts.map((part) => part[at] ?? 0)))
  const successRate = Math.floor((succeeded / attempts) * 10_000) / 10_000
  return { attempts, succeeded, failed, successRate, p50Ms: quantileOf(counts, 0.5), p95Ms: quantileOf(counts, 0.95) }
}

function hoursOf(starts: readonly string[], rows: readonly Counts[]) {
  const byHour = Map.groupBy(rows, ({ hour }) => hour)
  return starts.map((start) => {
    const { succeeded, failed, p95Ms } = summaryOf(byHour.get(start) ?? [])
    return { start, succeeded, failed, ...(p95Ms !== undefined && { p95Ms }) }
  })
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0)

/** Estimates a quantile in ms from the counts in the latency buckets, with linear interpolation within a bucket. */
function quantileOf(counts: readonly number[], share: number): number {
  const rank = sum(counts) * share
  let below = 0
  for (const [at, count] of counts.entries()) {
    const [from, to] = [latencyBounds[at - 1] ?? 0, latencyBounds[at] ?? 0]
    if (below + count >= rank) return Math.round(from + (to - from) * ((rank - below) / count))
    below += count
  }
  return latencyBounds.at(-1) ?? 0
}

/** Deletes the statistics of hours that ended at least 24 hours ago; returns the number of deleted rows. */
export const expireStatistics = (db: Database, now: () => number): Promise<number> =>
  sweepBelow(
    db,
    { table: 'webhook_statistics', key: ['hour', 'webhook_id'], column: 'hour' },
    startOfHour(now() - shownHours * hourMs),
  )
