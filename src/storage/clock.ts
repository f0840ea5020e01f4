import type { Database } from './database.ts'

/** A node logs a warning if its clock differs from the database's clock by more than this many milliseconds. */
export const toleratedMs = 5_000
/**
 * A node is not ready if its clock is off by more than this: tokens are accepted for at most 30 s after they expire.
 */
export const usableMs = 30_000
/** Minimum time between two warnings, so that a clock near the threshold does not flood the log. */
const noticeMs = 60_000

/** The severity of the difference between this machine's clock and the database's clock. */
type Drift = 'none' | 'tolerable' | 'unusable'

/** The result of a clock comparison, as passed to `onDrift`. */
export interface DriftNotice {
  drift: Drift
  /** How far this machine's clock is ahead of the database's clock; negative if it is behind. */
  aheadMs: number
}

export interface ClockOptions {
  db: Pick<Database, 'read' | 'engine' | 'prepare'>
  /** This machine's clock, in milliseconds since the epoch. */
  wall: () => number
  /** A monotonic clock in ms, unaffected by changes to the system clock. */
  monotonic: () => number
  /** Called when the severity of the drift changes, at most once a minute. */
  onDrift: (notice: DriftNotice) => void
  /** Called after this machine's clock was set to a different time. */
  onMoved?: () => void
}

/** The database's clock, which all nodes share. */
export interface SharedClock {
  /** The current time in milliseconds since the epoch: this machine's clock, corrected by the last measurement. */
  now: () => number
  /** How far this machine's clock is ahead of the database's clock, in ms; negative if it is behind. */
  aheadMs: () => number
  /** False while this machine's clock is more than 30 s off. */
  isUsable: () => boolean
  /** Compares the clocks. Rejects, and leaves the correction unchanged, if the database does not respond. */
  measure: () => Promise<void>
}

/** Reads the database's clock in whole milliseconds since the epoch. SQLite uses the machine's clock. */
export async function readDatabaseTime({ read, engine }: Pick<ClockOptions['db'], 'read' | 'engine'>): Promise<number> {
  const row = await read.selectNoFrom(engine.now.as('now')).executeTakeFirstOrThrow()
  return Math.floor(row.now)
}

/** Like `readDatabaseTime`, but compiles the statement only once. */
export function databaseTime({ read, engine, prepare }: ClockOptions['db']): () => Promise<number> {
  const statement = prepare<{ now: number }>(read.selectNoFrom(engine.now.as('now')))
  return async () => {
    const [row] = await statement.all([])
    return Math.floor((row as { now: number }).now)
  }
}

/**
 * Creates a node's clock: this machine's clock, corrected by each `measure`. The database reads its own clock at an
 * unknown moment during the round trip, so a measurement yields only an interval. If the correction is outside that
 * interval, it changes by the smallest amount needed, so that a slow response is not mistaken for a wrong clock.
 */
export function sharedClock({ db, wall, monotonic, onDrift, onMoved }: ClockOptions): SharedClock {
  const time = databaseTime(db)
  const notify = notices(monotonic, onDrift)
  let aheadMs = 0
  let offsetMs = wall() - monotonic()
  const measure = async () => {
    const started = monotonic()
    const at = await time()
    const [ended, local] = [monotonic(), wall()]
    if (Math.abs(local - ended - offsetMs) > 1_000) onMoved?.()
    offsetMs = local - ended
    // Callers expect whole milliseconds. The margin of 1 ms is needed because the clocks are not read at the same
    // moment.
    const [min, max] = [Math.floor(local - at - (ended - started)) - 1, Math.ceil(local - at) + 1]
    aheadMs = Math.min(Math.max(aheadMs, min), max)
    notify(aheadMs)
  }
  return {
    now: () => wall() - aheadMs,
    aheadMs: () => aheadMs,
    isUsable: () => driftOf(aheadMs) !== 'unusable',
    measure,
  }
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

/**
 * A clock that jumped ahead is trusted again after this time, because every token issued before the jump has then
 * expired.
 */
const trustedAgainMs = 25 * 3_600_000

/** Reported if the database's clock jumps ahead of the monotonic clock by more than 5 seconds. */
export class ClockJumped extends Error {
  override name = 'ClockJumped'
  constructor(aheadMs: number) {
    super(`The database's clock jumped ${Math.round(aheadMs / 1_000)} s ahead; nothing is removed early because of it`)
  }
}

/**
 * Returns a clock for schedules and for removing expired rows. It reads the database's clock. If that clock jumps ahead
 * by more than 5 seconds, the jump is ignored for 25 hours, so that no row is removed early if the jump is corrected in
 * that time. `onError` receives one `ClockJumped` per jump. The returned function rejects if the database does not
 * respond.
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
      if (passed - jumpedAt < trustedAgainMs) return Math.floor(expected)
    }
    jumpedAt = undefined
    known = { at, monotonic: passed }
    return at
  }
}

/**
 * Calls `run` at each multiple of `ms` on the clock `now`, so that all nodes call it at the same instants. Returns a
 * function that stops the calls.
 */
export function atEach(ms: number, now: () => number, run: () => void): () => void {
  const next = () => {
    // A timer may fire slightly early. Skip the next multiple in that case, because it has just been handled.
    const untilMs = ms - (now() % ms)
    return setTimeout(tick, untilMs < ms / 10 ? untilMs + ms : untilMs)
  }
  const tick = () => {
    timer = next()
    run()
  }
  let timer = setTimeout(tick, ms - (now() % ms))
  return () => clearTimeout(timer)
}
