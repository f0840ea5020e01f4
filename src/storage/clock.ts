import type { Database } from './database.ts'

/** A node warns when its clock is further than this off the database's, in ms. */
const toleratedMs = 5_000
/** A node is not ready when its clock is further than this off: tokens are accepted for 30 s after their end. */
const usableMs = 30_000
/** The least time between two notices: a clock at the edge of what is tolerated does not fill the log. */
const noticeMs = 60_000

/** How far this machine's clock is from the database's, in steps. */
type Drift = 'none' | 'tolerable' | 'unusable'

/** What is known of the clock. */
export interface DriftNotice {
  drift: Drift
  /** By how much this machine's clock is ahead of the database's; negative when it is behind. */
  aheadMs: number
}

export interface ClockOptions {
  db: Pick<Database, 'read' | 'engine' | 'prepare'>
  /** This machine's clock, in milliseconds since the epoch. */
  wall: () => number
  /** Milliseconds that have passed, whatever is done to the clock. */
  monotonic: () => number
  /** Told when the drift has changed, at most once a minute. */
  onDrift: (notice: DriftNotice) => void
  /** Told when this machine's clock was moved. */
  onMoved?: () => void
}

/** The database's clock, which all nodes share. */
export interface SharedClock {
  /** Milliseconds since the epoch by the database's clock, as far as it was measured. Costs a subtraction. */
  now: () => number
  /** False while this machine's clock is more than 30 s off. */
  isUsable: () => boolean
  /** Compares the clocks; rejects when the database does not answer, which changes nothing. */
  measure: () => Promise<void>
}

/** Makes the reader of the database's clock, in whole milliseconds since the epoch. On SQLite that is the machine's. */
export function databaseTime({ read, engine, prepare }: ClockOptions['db']): () => Promise<number> {
  const statement = prepare<{ now: number }>(read.selectNoFrom(engine.now.as('now')))
  return async () => {
    const [row] = await statement.all([])
    return Math.floor((row as { now: number }).now)
  }
}

/**
 * Makes the clock of a node: this machine's, corrected by what `measure` finds. The database's answer was made at some
 * moment of the round trip, so its clock is only known to be within an interval; a correction is made only when the clock is
 * outside of it, and no larger than needed. Slow answers therefore never look like a wrong clock.
 */
export function sharedClock({ db, wall, monotonic, onDrift, onMoved }: ClockOptions): SharedClock {
  const time = databaseTime(db)
  const notify = notices(monotonic, onDrift)
  let aheadMs = 0
  let offsetMs = wall() - monotonic()
  const measure = async () => {
    const begun = monotonic()
    const at = await time()
    const [ended, local] = [monotonic(), wall()]
    if (Math.abs(local - ended - offsetMs) > 1_000) onMoved?.()
    offsetMs = local - ended
    // Whole milliseconds, as everything that counts by them expects; the clocks may be read a millisecond apart.
    const [least, most] = [Math.floor(local - at - (ended - begun)) - 1, Math.ceil(local - at) + 1]
    aheadMs = Math.min(Math.max(aheadMs, least), most)
    notify(aheadMs)
  }
  return { now: () => wall() - aheadMs, isUsable: () => driftOf(aheadMs) !== 'unusable', measure }
}

function driftOf(aheadMs: number): Drift {
  const distance = Math.abs(aheadMs)
  if (distance > usableMs) return 'unusable'
  return distance > toleratedMs ? 'tolerable' : 'none'
}

function notices(monotonic: () => number, onDrift: ClockOptions['onDrift']) {
  let last: Drift = 'none'
  let nextAt = Number.NEGATIVE_INFINITY
  return (aheadMs: number) => {
    const drift = driftOf(aheadMs)
    if (drift === last || monotonic() < nextAt) return
    last = drift
    nextAt = monotonic() + noticeMs
    onDrift({ drift, aheadMs: Math.round(aheadMs) })
  }
}

/** The database's clock is believed again when it stays ahead this long: by then every token of before has ended. */
const believedAfterMs = 25 * 3_600_000

/** The database's clock went further than time did. */
export class ClockJumped extends Error {
  override name = 'ClockJumped'
  constructor(aheadMs: number) {
    super(`The database's clock jumped ${Math.round(aheadMs / 1_000)} s ahead: nothing is removed early because of it`)
  }
}

/**
 * Makes the clock by which rows are removed: the database's, but never further on than time has really passed since the last
 * look. A clock that jumps ahead therefore removes nothing early, and nothing is lost when it is put back. `onError` gets one
 * `ClockJumped` per jump. Rejects when the database does not answer.
 */
export function sweepClock(
  db: ClockOptions['db'],
  monotonic: () => number,
  onError: (error: ClockJumped) => void,
): () => Promise<number> {
  const time = databaseTime(db)
  let known: { at: number; monotonic: number } | undefined
  let jumpedAt: number | undefined
  return async () => {
    const at = await time()
    const passed = monotonic()
    const expected = known === undefined ? at : known.at + passed - known.monotonic
    if (at > expected + toleratedMs) {
      if (jumpedAt === undefined) onError(new ClockJumped(at - expected))
      jumpedAt ??= passed
      if (passed - jumpedAt < believedAfterMs) return Math.floor(expected)
    }
    jumpedAt = undefined
    known = { at, monotonic: passed }
    return at
  }
}
