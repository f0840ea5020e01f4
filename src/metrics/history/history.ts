import { sql } from 'kysely'
import type { Database } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import type { ScanRequester } from '../../storage/scans/scan.ts'
import { durationBounds } from '../samples.ts'
import { sampleMs } from './sampler.ts'

/** One step of the history: the counts and the worst states of all nodes. */
export interface HistoryPoint {
  /** The start of the step. */
  at: string
  /** The number of seconds for which at least one node has stored samples. */
  seconds: number
  nodes: number
  succeeded: number
  clientErrors: number
  limited: number
  serverErrors: number
  unlogged: number
  /** Percentiles of the durations of all responses; null if there were none. */
  p50Ms: number | null
  p99Ms: number | null
  jobsWaiting: number | null
  oldestJobMs: number | null
  delivered: number
  deliveryFailures: number
  deliveriesWaiting: number | null
  oldestDeliveryMs: number | null
  loopDelayMs: number
  memoryBytes: number
  diskFreeBytes: number | null
}

/** A half-open range [from, to) in epoch ms, divided into steps of `stepMs`. */
export interface HistoryRange {
  fromMs: number
  toMs: number
  stepMs: number
}

const summed = [
  ...(['succeeded', 'clientErrors', 'limited', 'serverErrors', 'unlogged'] as const),
  ...(['delivered', 'deliveryFailures'] as const),
]
const greatest = [
  ...(['jobsWaiting', 'oldestJobMs', 'deliveriesWaiting', 'oldestDeliveryMs'] as const),
  ...(['loopDelayMs', 'memoryBytes'] as const),
]
const buckets = Array.from({ length: durationBounds.length + 1 }, (_, at) => `duration${at}`)

/**
 * Returns a point for each step with samples. A point merges the samples of all nodes: the sums of counts, the
 * percentiles of the merged histograms, and the worst value of each state (the largest backlog, delay and memory, the
 * least free space).
 */
export async function readMetricHistory(
  { read, scan, engine }: Database,
  { fromMs, toMs, stepMs }: HistoryRange,
  requester: ScanRequester,
): Promise<HistoryPoint[]> {
  // A sample describes the 15 seconds before its time. Both numbers are literals, because SQLite would bind parameters
  // as reals and not divide them as integers.
  const step = sql<number>`(at - ${sql.lit(sampleMs)}) / ${sql.lit(stepMs)}`
  const query = read
    .selectFrom('metricSamples')
    .select(step.as('step'))
    .select(({ fn }) => [
      fn.count<number>('at').distinct().as('instants'),
      fn.count<number>('node').distinct().as('nodes'),
    ])
    .select(({ fn, ref }) => [...summed, ...buckets].map((name) => fn.sum<number>(ref(name as 'limited')).as(name)))
    .select(({ fn }) => greatest.map((name) => fn.max(name).as(name)))
    .select(({ fn }) => fn.min('diskFreeBytes').as('diskFreeBytes'))
    .where('at', '>=', fromMs + sampleMs)
    .where('at', '<', toMs + sampleMs)
    .where(engine.interruptible('metric_samples'))
    .groupBy(step)
    .orderBy(step)
  const rows = (await scan(query, requester)) as unknown as Record<string, number | string | null>[]
  return rows.map((row) => pointOf(row, stepMs))
}

function pointOf(row: Record<string, number | string | null>, stepMs: number): HistoryPoint {
  const numberOf = (name: string) => Number(row[name])
  const orNull = (name: string) => (row[name] === null ? null : numberOf(name))
  const counts = buckets.map(numberOf)
  return {
    at: iso(numberOf('step') * stepMs),
    seconds: (numberOf('instants') * sampleMs) / 1_000,
    nodes: numberOf('nodes'),
    ...(Object.fromEntries(summed.map((name) => [name, numberOf(name)])) as Pick<
      HistoryPoint,
      (typeof summed)[number]
    >),
    p50Ms: percentile(counts, 0.5),
    p99Ms: percentile(counts, 0.99),
    ...(Object.fromEntries(greatest.map((name) => [name, orNull(name)])) as Pick<
      HistoryPoint,
      (typeof greatest)[number]
    >),
    diskFreeBytes: orNull('diskFreeBytes'),
  }
}

/**
 * Estimates a percentile in ms from the counts of a histogram, linearly within a bucket, as Prometheus does. Durations
 * above the last bound count as that bound. Returns null if there are no values.
 */
export function percentile(counts: readonly number[], share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return null
  let below = 0
  for (const [at, bound] of durationBounds.entries()) {
    const count = counts[at] as number
    if (count > 0 && below + count >= total * share) {
      const lower = at === 0 ? 0 : (durationBounds[at - 1] as number)
      const ms = (lower + ((bound - lower) * (total * share - below)) / count) * 1_000
      return Math.round(ms * 100) / 100
    }
    below += count
  }
  return (durationBounds.at(-1) as number) * 1_000
}
