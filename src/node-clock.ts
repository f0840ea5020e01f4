import type { Logger } from 'pino'
import { type DriftNotice, type SharedClock, sharedClock } from './storage/clock.ts'
import type { Database } from './storage/database.ts'

export interface NodeClockOptions {
  db: Database
  log: Logger
  /** This machine's clock, in milliseconds since the epoch. */
  wall: () => number
  /** Milliseconds that have passed, whatever is done to the clock. */
  monotonic: () => number
  /** Told when this machine's clock was moved. */
  onMoved: () => void
}

const measureMs = 5_000

/** Makes the clock of a running node, and compares it with the database's every five seconds, in the log where they differ. */
export async function nodeClock({ log, ...options }: NodeClockOptions): Promise<SharedClock & { close: () => void }> {
  const clock = sharedClock({ ...options, onDrift: (notice) => tell(log, notice) })
  await clock.measure()
  const timer = setInterval(measuring(clock, log), measureMs)
  return { ...clock, close: () => clearInterval(timer) }
}

/** One measurement at a time. While the database is away, which readiness tells, it is said once. */
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
