import type { Logger } from 'pino'
import { type DriftNotice, type SharedClock, sharedClock } from './storage/clock.ts'
import type { Database } from './storage/database.ts'

export interface NodeClockOptions {
  db: Database
  log: Logger
  /** The system clock in epoch ms. */
  wall: () => number
  /** Monotonic clock in ms. */
  monotonic: () => number
  /** Called when the system clock was changed. */
  onMoved: () => void
}

const measureMs = 5_000

/** Creates the clock of a running node. Compares it with the database's every five seconds and logs differences. */
export async function nodeClock({ log, ...options }: NodeClockOptions): Promise<SharedClock & { close: () => void }> {
  const clock = sharedClock({ ...options, onDrift: (notice) => tell(log, notice) })
  await clock.measure()
  const timer = setInterval(measuring(clock, log), measureMs)
  return { ...clock, close: () => clearInterval(timer) }
}

/** Runs one measurement at a time. Logs once that the database is unavailable; readiness reports it as well. */
function measuring({ measure }: SharedClock, log: Logger): () => Promise<void> {
  let isUnderWay = false
  let isFailing = false
  return async () => {
    if (isUnderWay) return
    isUnderWay = true
    try {
      await measure()
      isFailing = false
    } catch (error) {
      if (!isFailing) log.warn({ err: error }, 'the clock cannot be compared with that of the database')
      isFailing = true
    }
    isUnderWay = false
  }
}

function tell(log: Logger, { drift, aheadMs }: DriftNotice): void {
  const effect = drift === 'unusable' ? ': this node is not ready' : ''
  if (drift === 'none') log.info({ aheadMs }, 'the clock of this machine is right again')
  else log.warn({ aheadMs }, `the clock of this machine differs from that of the database${effect}`)
}
