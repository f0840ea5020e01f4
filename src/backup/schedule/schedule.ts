import { CronExpressionParser } from 'cron-parser'
import type { ResultStore } from '../../files/store.ts'
import type { Log } from '../../logging/entries.ts'
import type { Database } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import type { BackupProgress } from '../create.ts'
import {
  claimRun,
  finishRun,
  lastScheduledRun,
  type RunClaim,
  runLeaseSeconds,
  setLease,
  waitingRequest,
} from './runs.ts'

/** The properties of a finished backup. */
export interface Produced {
  sizeBytes: number
  /** The digest of the file, in base64. */
  sha256: string
  takenAt: string
  isEncrypted: boolean
  missingResults: number
  damagedResults: number
}

export interface ScheduleOptions {
  db: Database
  /** Five cron fields, in UTC; null to make only requested backups. */
  cron: string | null
  /** How many scheduled backups to keep, and how many requested ones. */
  keep: number
  /** The folder or bucket that contains the backups, and its URL. */
  store: ResultStore
  location: string
  /** Writes a backup to the store under this name. Leaves nothing in the store if it fails or is aborted. */
  produce: (name: string, signal: AbortSignal, onProgress: (progress: BackupProgress) => void) => Promise<Produced>
  /** The name of this node. */
  node: string
  now: () => number
  log: Log
}

export interface BackupSchedule {
  /**
   * Makes a backup if one was requested or is due, unless another node is already making it. Resolves when the backup
   * is finished.
   */
  check: () => Promise<void>
  /** Aborts the backup in progress. The next node that checks the schedule starts it again. */
  stop: () => Promise<void>
}

const heartbeatMs = 20_000
const progressMs = 2_000
const unfinishedMs = 86_400_000
/**
 * The file names of scheduled backups, then of requested ones. Old files are removed separately for each kind, so that
 * one kind never displaces the other.
 */
const nameForms = [/^plinth-\d{8}T\d{6}Z\.backup$/, /^plinth-requested-\d{8}T\d{6}Z\.backup$/]

const nameAt = (ms: number, isRequested: boolean) =>
  `plinth-${isRequested ? 'requested-' : ''}${new Date(ms).toISOString().replace(/[-:]|\.\d+/g, '')}.backup`

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
export function backupSchedule(options: ScheduleOptions): BackupSchedule {
  const { db, cron, node, now } = options
  const stopping = new AbortController()
  let handledMs: number | undefined
  let checking: Promise<void> | undefined
  const runIfClaimed = async (scheduledFor: string, isRequested: boolean) => {
    const claim = await claimRun(db, { scheduledFor, node, nowMs: now() })
    if (typeof claim !== 'string') await run(options, claim, isRequested, stopping.signal)
    return claim
  }
  const check = async () => {
    if (cron !== null) handledMs ??= await firstHandled(db, now())
    const request = await waitingRequest(db, now())
    if (request !== undefined) await runIfClaimed(request.scheduledFor, true)
    if (cron === null || handledMs === undefined || stopping.signal.aborted) return
    const dueMs = latestDue(cron, now())
    if (dueMs <= handledMs) return
    // If another node is working on a run, this run is checked again later.
    if ((await runIfClaimed(iso(dueMs), false)) !== 'busy') handledMs = dueMs
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
 * Returns the time from which the schedule continues: just before the last scheduled run, which may be unfinished, or
 * now if there has never been one.
 */
async function firstHandled(db: Database, nowMs: number): Promise<number> {
  const last = await lastScheduledRun(db)
  return last === undefined ? nowMs : Date.parse(last.scheduledFor) - 1
}

/**
 * Makes a backup and records the outcome. If the service stops, ends the lease, so that the next check makes the
 * backup.
 */
async function run(
  options: ScheduleOptions,
  claim: RunClaim,
  isRequested: boolean,
  stopping: AbortSignal,
): Promise<void> {
  const { db, produce, location, now, log } = options
  const [name, startedMs] = [nameAt(now(), isRequested), now()]
  const lease = heldLease(options, claim)
  log.info({ name, scheduledFor: claim.scheduledFor, attempt: claim.attempt }, 'backup started')
  try {
    const produced = await produce(name, AbortSignal.any([stopping, lease.lost]), lease.onProgress)
    const { isEncrypted, ...facts } = produced
    await finishRun(db, claim, { name, location, ...facts, encrypted: isEncrypted ? 1 : 0 }, now())
    const { sizeBytes, takenAt } = produced
    log.info({ name, sizeBytes, takenAt, ms: now() - startedMs }, 'backup made')
  } catch (error) {
    if (stopping.aborted) return void (await setLease(db, claim, now()))
    log.error({ name, err: error }, 'backup failed')
    return finishRun(db, claim, { error: error instanceof Error ? error.message : String(error) }, now())
  } finally {
    lease.release()
  }
  await removeOld(options)
}

/** Extends the lease of a run every 20 seconds, and saves its progress at most every 2 seconds. */
function heldLease({ db, now, log }: ScheduleOptions, claim: RunClaim) {
  const lost = new AbortController()
  let progress: BackupProgress | undefined
  const save = () => {
    setLease(db, claim, now() + runLeaseSeconds * 1_000, progress).then(
      (isHeld) => isHeld || lost.abort(),
      (err) => log.warn({ err }, 'backup lease not extended'),
    )
    progress = undefined
  }
  const timers = [setInterval(save, heartbeatMs), setInterval(() => progress && save(), progressMs)]
  return {
    /** Aborted if another node has taken over. */
    lost: lost.signal,
    onProgress: (latest: BackupProgress) => {
      progress = latest
    },
    release: () => timers.forEach(clearInterval),
  }
}

/** Removes all but the newest backups of each kind, and unfinished files left by killed processes. */
async function removeOld({ store, keep, now, log }: ScheduleOptions): Promise<void> {
  try {
    const names = (await store.keys()).sort()
    for (const name of nameForms.flatMap((form) => names.filter((one) => form.test(one)).slice(0, -keep))) {
      await store.remove(name)
      log.info({ name }, 'old backup removed')
    }
    await store.sweepTemporary(now() - unfinishedMs)
  } catch (error) {
    log.error({ err: error }, 'old backups not removed')
  }
}
