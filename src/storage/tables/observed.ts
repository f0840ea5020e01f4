/** The histogram buckets of a sample: one per bound of `durationBounds`, and one for longer durations. */
type Durations = Record<`duration${0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 13}`, number>

/** A process's counts over 15 seconds, and its state at the end of that period. */
export interface MetricSamplesTable extends Durations {
  /** The end of the period, in epoch ms. */
  at: number
  node: string
  succeeded: number
  clientErrors: number
  limited: number
  serverErrors: number
  delivered: number
  deliveryFailures: number
  unlogged: number
  /** The state of the queues, which is the same for all processes; null if the database did not respond in time. */
  jobsWaiting: number | null
  oldestJobMs: number | null
  deliveriesWaiting: number | null
  oldestDeliveryMs: number | null
  loopDelayMs: number
  memoryBytes: number
  diskFreeBytes: number | null
}

/** The busiest clients, subjects or addresses, as counted by one process in a minute or an hour. */
export interface TrafficTable {
  period: 'minute' | 'hour'
  kind: 'client' | 'subject' | 'address'
  /** The start of the period. */
  at: string
  node: string
  /** JSON: see `Busiest` in `src/traffic/busiest.ts`. */
  counts: string
  expiresAt: string
}

/** A logged response. If there are too many responses, only a sample of them is logged. */
export interface RequestLogTable {
  /** Starts with the instant of the response; see `src/traffic/request-log.ts`. */
  id: string
  requestId: string
  node: string
  method: string
  path: string
  status: number
  ms: number
  clientId: string | null
  subject: string | null
  address: string | null
  errorCode: string | null
}
