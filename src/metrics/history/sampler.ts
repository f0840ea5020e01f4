import { atEach } from '../../storage/clock.ts'
import type { Database } from '../../storage/database.ts'
import { sweepBelow } from '../../storage/sweep.ts'
import type { MetricSamplesTable } from '../../storage/tables/observed.ts'
import { cachedRead } from '../cached-read.ts'
import type { Metrics, Totals } from '../metrics.ts'
import type { StoredState } from '../stored-state.ts'

export interface SamplerOptions {
  db: Database
  /** The id of this process in the table `nodes`. */
  node: string
  metrics: Pick<Metrics, 'totals' | 'readState'>
  /** Returns the 99th percentile of the event loop's delay since the previous call, in ms. */
  loopDelayMs: () => number
  /** Returns the free space in the data folder in bytes; null if it is unknown. */
  freeBytes: () => Promise<number | null>
  /** Returns the current time in ms since the epoch. */
  now: () => number
  monotonic: () => number
  later: (ms: number, run: () => void) => () => void
  /** Called with the error if a sample cannot be stored; only once per series of consecutive errors. */
  onError: (error: unknown) => void
}

export interface Sampler {
  /** Stores a sample of everything counted since the previous sample. */
  sample: () => Promise<void>
  close: () => Promise<void>
}

/** The time between two samples. */
export const sampleMs = 15_000
const keptMs = 86_400_000
const limitMs = 2_000

/**
 * Stores a sample of this process's metrics every 15 seconds. Each sample contains the increase of totals that the
 * metrics count anyway, so sampling adds no work to requests. A sample that cannot be stored is lost.
 */
export function startSampler(options: SamplerOptions): Sampler {
  const { db, node, metrics, now, onError } = options
  const readFree = cachedRead({ ...options, read: options.freeBytes, freshMs: sampleMs / 2, limitMs })
  let previous: Totals | null = null
  const first = metrics.totals()
  let lastAt = Number.NEGATIVE_INFINITY
  let isFailing = false
  let current = Promise.resolve()
  const store = async () => {
    const at = Math.round(now() / sampleMs) * sampleMs
    if (at <= lastAt) return
    lastAt = at
    const totals = await metrics.totals()
    const counts = difference(totals, previous ?? (await first))
    previous = totals
    const loopDelayMs = options.loopDelayMs()
    const [state, diskFreeBytes] = await Promise.all([metrics.readState(), readFree()])
    const measured = { loopDelayMs, memoryBytes: process.memoryUsage.rss(), diskFreeBytes }
    const row: MetricSamplesTable = { at, node, ...counts, ...queuesOf(state, now()), ...measured }
    await db.write((tx) => tx.insertInto('metricSamples').values(row).execute())
  }
  const sample = () => {
    current = current.then(store).then(
      () => {
        isFailing = false
      },
      (error) => {
        if (!isFailing) onError(error)
        isFailing = true
      },
    )
    return current
  }
  const stop = atEach(sampleMs, now, sample)
  return {
    sample,
    close: () => {
      stop()
      return current
    },
  }
}

type Counts = Omit<
  MetricSamplesTable,
  'at' | 'node' | keyof ReturnType<typeof queuesOf> | 'loopDelayMs' | 'memoryBytes' | 'diskFreeBytes'
>

/** Returns the increase of a count; 0 if the count has decreased, which happens when a thread ends. */
const since = (count: number, before: number): number => Math.max(0, count - before)

/** Returns the increase from one set of totals to the next, by column name. */
function difference(totals: Totals, before: Totals): Counts {
  const [succeeded, clientErrors, limited, serverErrors] = totals.byClass.map((count, at) =>
    since(count, before.byClass[at] as number),
  ) as typeof totals.byClass
  const durations = totals.durations.map((count, at) => [`duration${at}`, since(count, before.durations[at] as number)])
  return {
    ...{ succeeded, clientErrors, limited, serverErrors },
    delivered: since(totals.delivered, before.delivered),
    deliveryFailures: since(totals.deliveryFailures, before.deliveryFailures),
    unlogged: since(totals.unlogged, before.unlogged),
    ...Object.fromEntries(durations),
  }
}

/** Returns the combined state of all queues, by column name. */
function queuesOf(state: StoredState | null, nowMs: number) {
  if (state === null) return { jobsWaiting: null, oldestJobMs: null, deliveriesWaiting: null, oldestDeliveryMs: null }
  const { backlogs, deliveriesDueAt, counts } = state
  const due = backlogs.map(({ dueSinceMs }) => dueSinceMs).filter((ms) => ms !== null)
  const ageOf = (sinceMs: number) => Math.max(0, Math.round(nowMs - sinceMs))
  return {
    jobsWaiting: backlogs.reduce((sum, { waiting }) => sum + waiting, 0),
    oldestJobMs: due.length === 0 ? 0 : ageOf(Math.min(...due)),
    deliveriesWaiting: counts.waitingDeliveries,
    oldestDeliveryMs: deliveriesDueAt === null ? 0 : ageOf(Date.parse(deliveriesDueAt)),
  }
}

/** Deletes samples that are more than a day old; returns their number. */
export const expireSamples = (db: Database, now: () => number): Promise<number> =>
  sweepBelow(db, { table: 'metric_samples', key: ['at', 'node'], column: 'at' }, now() - keptMs)
