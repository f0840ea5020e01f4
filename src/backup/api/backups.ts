import { existsSync } from 'node:fs'
import { openResults, resultsFolder } from '../../files/open.ts'
import { type SlotLimiter, slotLimiter } from '../../files/slots.ts'
import type { ResultStore } from '../../files/store.ts'
import { keysetPage, type PageQuery } from '../../http/pagination.ts'
import { Problem } from '../../http/problems/problem.ts'
import { cachedRead } from '../../metrics/cached-read.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import { type BackupRun, requestRun, settledRun } from '../schedule/runs.ts'
import type { BackupVerdict } from '../schedule/thread.ts'
import { claimVerification, type VerifyClaim, verify } from './verification.ts'
import { availabilityOf, backupView, type Seen, scheduledTimeOf } from './views.ts'

export interface BackupApiOptions {
  db: Database
  now: () => number
  monotonic: () => number
  later: (ms: number, run: () => void) => () => void
  /** This node's host name and process id. */
  hostname: string
  pid: number
  /** The URL of the folder or bucket. */
  location: string
  /** Whether a schedule or a location for backups is configured. */
  isConfigured: boolean
  /** Checks a backup's file in a worker thread. */
  check: (file: { name: string; sizeBytes: number }, signal: AbortSignal) => Promise<BackupVerdict>
  /** Called after a request for a backup has been stored. */
  onRequested: () => void
  /** Called with the error if a check cannot be run or its outcome cannot be recorded. */
  onError: (error: unknown) => void
}

/** A completed backup whose file this node can read. */
export type ReadableRun = BackupRun & { name: string; sizeBytes: number }

/** The requested check of one backup. */
export interface RequestedVerification {
  /**
   * Reserves this process for the check, and records that the check is running. Throws a `Problem` if the backup is
   * already being checked, or if this process is checking another backup.
   */
  claim: (tx: Queryable) => Promise<void>
  /** Runs the check in the background. Call this after the transaction; without a claim, it does nothing. */
  start: () => void
  /** Releases the reservation unless the check has started. */
  release: () => void
}

/** The operations on backups that the routes need. */
export interface Backups {
  page: (query: PageQuery) => Promise<{ backups: object[]; cursors: { next?: string; prev?: string } }>
  /** Throws RESOURCE_NOT_FOUND if there is no such backup. */
  find: (id: string) => Promise<BackupRun>
  view: (run: BackupRun) => Promise<ReturnType<typeof backupView>>
  /** Like `view`, but assumes that the file exists, so that the folder or bucket need not be read. */
  viewUnseen: (run: BackupRun) => ReturnType<typeof backupView>
  /** Adds a run. Throws a `Problem` if backups are not configured, or if another backup is in progress. */
  request: (tx: Queryable, requestedBy: string) => Promise<BackupRun>
  onRequested: () => void
  /** Returns the run if this node can read its file; otherwise throws a `Problem` that gives the reason. */
  readable: (run: BackupRun) => Promise<ReadableRun>
  store: () => Promise<ResultStore>
  /** Prepares the check of a backup. */
  verification: (run: ReadableRun) => RequestedVerification
  downloads: SlotLimiter
  /** Stops the check in progress. */
  stop: () => Promise<void>
}

const namesLimitMs = 5_000
const downloadLimits = { perAccount: 2, inTotal: 4 }
const checkRunning = (what: string) => new Problem('CHECK_IN_PROGRESS', what, { headers: { 'retry-after': '5' } })

export function openBackups(options: BackupApiOptions): Backups {
  const { db, now, location, hostname, pid, isConfigured, onRequested } = options
  const node = `${hostname} ${pid}`
  const names = cachedRead({ read: () => namesIn(location), freshMs: 0, limitMs: namesLimitMs, ...options })
  const seen = async (): Promise<Seen> => ({ names: await names(), location, hostname })
  return {
    page: async (query) => {
      const { rows, cursors } = await runPage(db.read, query)
      const place = await seen()
      return { backups: rows.map((run) => backupView(settledRun(run, now()), place, now())), cursors }
    },
    find: async (id) => {
      const time = scheduledTimeOf(id)
      const runs = db.read.selectFrom('backups').selectAll()
      const run = time && (await runs.where('scheduledFor', '=', time).executeTakeFirst())
      if (run) return settledRun(run, now())
      throw new Problem('RESOURCE_NOT_FOUND', 'There is no such backup: the last 100 are listed')
    },
    view: async (run) => backupView(run, await seen(), now()),
    viewUnseen: (run) => backupView(run, { names: new Set([run.name ?? '']), location, hostname }, now()),
    request: async (tx, requestedBy) => {
      if (!isConfigured) throw new Problem('BACKUPS_NOT_CONFIGURED', notConfigured)
      const run = await requestRun(tx, db.engine, { requestedBy, node, nowMs: now() })
      if (run !== undefined) return run
      const headers = { 'retry-after': '15' }
      throw new Problem('BACKUP_IN_PROGRESS', 'Another backup is waiting or in progress', { headers })
    },
    onRequested,
    readable: async (run) => assertReadable(run, await seen()),
    store: () => openResults(location),
    downloads: slotLimiter(downloadLimits),
    ...verifications(options, node),
  }
}

/** Checks one backup at a time. */
function verifications(options: BackupApiOptions, node: string): Pick<Backups, 'verification' | 'stop'> {
  const { db, now, check, onError } = options
  const stopping = new AbortController()
  let holder: RequestedVerification | undefined
  let verifying: Promise<void> | undefined
  const verification = ({ scheduledFor, name, sizeBytes }: ReadableRun): RequestedVerification => {
    let claim: VerifyClaim | undefined
    let isStarted = false
    const release = () => {
      if (holder === own) holder = undefined
    }
    const own: RequestedVerification = {
      claim: async (tx) => {
        // Reserve the process before the first await, because two requests may be in their transactions at the same
        // time.
        holder ??= own
        if (holder !== own) throw checkRunning('This node is checking another backup')
        claim = await claimVerification(tx, scheduledFor, { node, nowMs: now() })
        if (claim === undefined) throw checkRunning('This backup is being checked')
      },
      start: () => {
        if (claim === undefined) return
        isStarted = true
        const how = { db, now, signal: stopping.signal, onError }
        verifying = verify(claim, { ...how, check: (signal) => check({ name, sizeBytes }, signal) }).finally(release)
      },
      release: () => isStarted || release(),
    }
    return own
  }
  return {
    verification,
    stop: async () => {
      stopping.abort()
      await verifying
    },
  }
}

const notConfigured =
  "Backups are not configured: set PLINTH_BACKUP to a schedule, such as '0 3 * * *', or PLINTH_BACKUP_URL to a folder or bucket"

/** Returns the file names in a folder or bucket; none if the folder does not exist. Does not create the folder. */
async function namesIn(location: string): Promise<Set<string>> {
  const folder = resultsFolder(location)
  if (folder !== null && !existsSync(folder)) return new Set()
  return new Set(await (await openResults(location)).keys())
}

/** Returns the run if this node can read its file; otherwise throws a `Problem` that gives the reason. */
function assertReadable(run: BackupRun, seen: Seen): ReadableRun {
  const unavailable = (detail: string) => new Problem('BACKUP_UNAVAILABLE', detail)
  const { name, sizeBytes, status, node } = run
  if (status === 'running') throw unavailable('The backup is not completed yet')
  if (name === null || sizeBytes === null) throw unavailable('The backup failed, so there is no file')
  const place = run.location ?? seen.location
  const availability = availabilityOf(run, seen)
  if (availability === 'here') return { ...run, name, sizeBytes }
  if (availability === 'unknown') {
    throw new Problem('SERVICE_UNAVAILABLE', `${place} does not respond`, { headers: { 'retry-after': '30' } })
  }
  if (availability === 'removed') {
    throw new Problem('RESOURCE_NOT_FOUND', `The file ${name} is no longer in ${place}`)
  }
  throw unavailable(`${name} is in ${place} on ${node}, which this node (${seen.hostname}) cannot read`)
}

const runPage = (read: Queryable, query: PageQuery) =>
  keysetPage<BackupRun>(query, 1, {
    of: 'backups',
    keyOf: ({ scheduledFor }) => [scheduledFor],
    rowsAfter: (after, backwards, count) => {
      const [order, beyond] = backwards ? (['asc', '>'] as const) : (['desc', '<'] as const)
      return read
        .selectFrom('backups')
        .selectAll()
        .$if(after !== null, (page) => page.where('scheduledFor', beyond, String(after?.[0])))
        .orderBy('scheduledFor', order)
        .limit(count)
        .execute()
    },
  })
