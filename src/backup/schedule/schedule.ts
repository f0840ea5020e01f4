import { CronExpressionParser } from 'cron-parser'
import type { Log } from '../../logging/entries.ts'
import type { ResultStore } from '../../reports/files/store.ts'
import type { Database } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import { type Claim, claimRun, finishRun, lastRun, leaseSeconds, setLease } from './runs.ts'

/** Facts about a finished backup. */
export interface Produced {
  sizeBytes: number
  takenAt: string
  missingResults: number
  damagedResults: number
}

export interface ScheduleOptions {
  db: Database
  /** Five cron fields, in UTC. */
  cron: string
  /** How many backups to keep. */
  keep: number
  /** The folder or bucket that contains the backups. */
  store: ResultStore
  /** Writes a backup to the store under this name. Leaves nothing in the store if it fails or is aborted. */
  produce: (name: string, signal: AbortSignal) => Promise<Produced>
  /** The name of this node. */
  node: string
  now: () => number
  log: Log
}

export interface Schedule {
  /** Makes a backup if one is due and no other node is making it; resolves when the backup is finished. */
  check: () => Promise<void>
  /** Aborts the backup in progress. Whichever node checks next makes it again. */
  stop: () => Promise<void>
}

const heartbeatMs = 20_000
const unfinishedMs = 86_400_000
const nameForm = /^plinth-\d{8}T\d{6}Z\.backup$/

const nameAt = (ms: number) => `plinth-${new Date(ms).toISOString().replace(/[-:]|\.\d+/g, '')}.backup`

/** Returns the latest scheduled time that is not after `ms`. Throws if the cron expression is not valid. */
export function latestDue(cron: string, ms: number): number {
  // `prev` returns a time strictly before the given date.
  return CronExpressionParser.parse(cron, { currentDate: new Date(ms + 1), tz: 'UTC' })
    .prev()
    .getTime()
}

/**
 * Makes backups on a schedule, one at a time, each on a single node. If no node was running at the latest scheduled
 * time, the backup is made at the next start, unless there has never been a scheduled backup.
 */
export function backupSchedule(options: ScheduleOptions): Schedule {
  const { db, cron, node, now } = options
  const stopping = new AbortController()
  let handledMs: number | undefined
  let checking: Promise<void> | undefined
  const check = async () => {
    handledMs ??= await firstHandled(db, now())
    const dueMs = latestDue(cron, now())
    if (dueMs <= handledMs) return
    const claim = await claimRun(db, { scheduledFor: iso(dueMs), node, nowMs: now() })
    // Another node is working on a run, so this run is checked again later.
    if (claim === 'busy') return
    if (claim !== 'finished') await run(options, claim, stopping.signal)
    handledMs = dueMs
  }
  return {
    check: () => {
      checking ??= check().finally(() => {
        checking = undefined
      })
      return checking
    },
    stop: async () => {
      stopping.abort()
      // The caller of `check` handles the failure.
      await checking?.catch(() => {})
    },
  }
}

/**
 * Returns the time up to which scheduled backups count as handled: now if there has never been a run; otherwise, just
 * before the last run, because it may be unfinished.
 */
async function firstHandled(db: Database, nowMs: number): Promise<number> {
  const last = await lastRun(db)
  return last === undefined ? nowMs : Date.parse(last.scheduledFor) - 1
}

/**
 * Makes a backup and records the outcome. If the service stops, ends the lease, so that the next check makes the
 * backup.
 */
async function run(options: ScheduleOptions, claim: Claim, stopping: AbortSignal): Promise<void> {
  const { db, produce, now, log } = options
  const lost = new AbortController()
  const beat = setInterval(() => {
    setLease(db, claim, now() + leaseSeconds * 1_000).then(
      (isHeld) => isHeld || lost.abort(),
      (err) => log.warn({ err }, 'backup lease not extended'),
    )
  }, heartbeatMs)
  const [name, startedMs] = [nameAt(now()), now()]
  log.info({ name, scheduledFor: claim.scheduledFor, attempt: claim.attempt }, 'backup started')
  try {
    const produced = await produce(name, AbortSignal.any([stopping, lost.signal]))
    await finishRun(db, claim, { name, sizeBytes: produced.sizeBytes }, now())
    const { sizeBytes, takenAt } = produced
    log.info({ name, sizeBytes, takenAt, ms: now() - startedMs }, 'backup made')
  } catch (error) {
    if (stopping.aborted) return void (await setLease(db, claim, now()))
    log.error({ name, err: error }, 'backup failed')
    return finishRun(db, claim, { error: error instanceof Error ? error.message : String(error) }, now())
  } finally {
    clearInterval(beat)
  }
  await removeOld(options)
}

/** Removes all but the newest backups, and unfinished files of processes that were killed. */
async function removeOld({ store, keep, now, log }: ScheduleOptions): Promise<void> {
  try {
    const names = (await store.keys()).filter((name) => nameForm.test(name)).sort()
    for (const name of names.slice(0, -keep)) {
      await store.remove(name)
      log.info({ name }, 'old backup removed')
    }
    await store.sweepTemporary(now() - unfinishedMs)
  } catch (error) {
    log.error({ err: error }, 'old backups not removed')
  }
}
