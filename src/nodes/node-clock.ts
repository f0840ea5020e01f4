import type { Log } from '../logging/entries.ts'
import { type DriftNotice, type SharedClock, sharedClock } from '../storage/clock.ts'
import type { Database } from '../storage/database.ts'

export interface NodeClockOptions {
  db: Database
  /** Null in a thread whose process has another clock that logs. */
  log: Log | null
  /** Returns the system time in ms since the epoch. */
  wall: () => number
  /** Returns the monotonic time in ms. */
  monotonic: () => number
  /** Called when the system clock has been changed. */
  onMoved: () => void
}

const measureMs = 5_000

/**
 * Creates a running node's clock, which follows the database's clock: every five seconds, the two are compared and
 * differences are corrected. Logs when this machine's clock is too far off, and when it is correct again.
 */
export async function nodeClock({ log, ...options }: NodeClockOptions): Promise<SharedClock & { close: () => void }> {
  const clock = sharedClock({ ...options, onDrift: (notice) => logDrift(log, notice) })
  await clock.measure()
  const timer = setInterval(measuring(clock, log), measureMs)
  return { ...clock, close: () => clearInterval(timer) }
}

/** Runs one measurement at a time. Logs only the first of consecutive failures, because readiness also reports them. */
function measuring({ measure }: SharedClock, log: Log | null): () => Promise<void> {
  let isRunning = false
  let isFailing = false
  return async () => {
    if (isRunning) return
    isRunning = true
    try {
      await measure()
      isFailing = false
    } catch (error) {
      if (!isFailing) log?.warn({ err: error }, 'clock not comparable')
      isFailing = true
    }
    isRunning = false
  }
}

function logDrift(log: Log | null, { drift, aheadMs }: DriftNotice): void {
  if (drift === 'none') log?.info({ aheadMs }, 'clock in step again')
  else log?.warn({ aheadMs, ready: drift !== 'unusable' }, 'clock out of step')
}
