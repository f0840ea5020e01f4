import { sampleMs } from '../../src/metrics/history/sampler.ts'
import { durationBounds } from '../../src/metrics/samples.ts'
import type { MetricSamplesTable } from '../../src/storage/tables/observed.ts'
import { trafficCounter } from '../../src/traffic/counter.ts'
import type { Real } from '../oauth/real.ts'

const minuteMs = 60_000
const minutes = 60
const [node, MiB] = ['nod_past', 1024 ** 2]

/** A client, and the number of responses that it gets each minute, by status. */
export type Sent = readonly [client: string, responses: Readonly<Record<number, number>>]

/** Stores the traffic and the metrics of the last hour, as the service would have stored them. */
export async function addPast({ db }: Pick<Real, 'db'>, sent: readonly Sent[]): Promise<void> {
  const end = Math.floor(Date.now() / minuteMs) * minuteMs
  let now = end - minutes * minuteMs
  const onError = (error: unknown) => {
    throw error
  }
  const counter = trafficCounter({ db, node, now: () => now, onError })
  for (; now < end; now += minuteMs) {
    for (const [client, responses] of sent) {
      for (const [status, times] of Object.entries(responses)) {
        for (let n = 0; n < times; n++)
          counter.count({ client, subject: client, address: '192.0.2.7', status: Number(status) })
      }
    }
    await counter.flush()
  }
  await counter.close()
  // Add samples for a few more minutes, so that the latest values are not those of an idle service.
  const samples: MetricSamplesTable[] = []
  for (let at = end - minutes * minuteMs; at <= end + 5 * minuteMs; at += sampleMs) samples.push(sampleAt(at, sent))
  await db.write((tx) => tx.insertInto('metricSamples').values(samples).execute())
}

/** Returns a sample of 15 seconds. The load varies in waves. */
function sampleAt(at: number, sent: readonly Sent[]): MetricSamplesTable {
  const wave = (periodMinutes: number) => Math.sin((at / (periodMinutes * minuteMs)) * 2 * Math.PI)
  const load = 1 + 0.3 * wave(23) + 0.1 * wave(3.7) + 0.05 * wave(1.3)
  const of = (isCounted: (status: number) => boolean) => {
    const counts = sent.flatMap(([, responses]) =>
      Object.entries(responses).map(([status, times]) => (isCounted(Number(status)) ? times : 0)),
    )
    return Math.round((counts.reduce((sum, count) => sum + count, 0) * load * sampleMs) / minuteMs)
  }
  const succeeded = of((status) => status < 400)
  const slow = Math.round((succeeded * load) / 30)
  const durations = durationBounds.map((_, bucket) => [`duration${bucket}`, 0])
  const waiting = { jobsWaiting: Math.round(load), oldestJobMs: Math.round(400 * load) }
  return {
    ...Object.fromEntries([...durations, [`duration${durationBounds.length}`, 0]]),
    ...{ at, node, succeeded, duration1: succeeded - slow, duration2: slow, ...waiting },
    ...{ clientErrors: of((status) => status >= 400 && status < 429), limited: of((status) => status === 429) },
    ...{ serverErrors: 0, delivered: Math.round(80 * load), deliveryFailures: Math.round(3 + wave(7)), unlogged: 0 },
    ...{ deliveriesWaiting: Math.round(26 + 8 * wave(31)), oldestDeliveryMs: Math.round(42_000 * load) },
    ...{ loopDelayMs: 2 * load, memoryBytes: Math.round((180 + 10 * load) * MiB), diskFreeBytes: 34_000 * MiB },
  } as MetricSamplesTable
}
