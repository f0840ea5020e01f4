import { setTimeout as wait } from 'node:timers/promises'
import { archiveAudit } from './audit/archive-sweep.ts'
import { removeUnusedFiles } from './files/remove-unused.ts'
import type { ResultStore } from './files/store.ts'
import { deleteExpiredResponses } from './idempotency/store.ts'
import { expireJobs, type JobWork, type JobWorkOptions, startJobs } from './jobs/start.ts'
import { expireSamples } from './metrics/history/sampler.ts'
import { expireNodes } from './nodes/nodes.ts'
import { sweepExpired } from './oauth/tokens/auth-records.ts'
import { sweepInvitations } from './oauth/users/invitations.ts'
import { sweepLoginTries } from './oauth/users/login-throttle.ts'
import type { EventAccess } from './queue/events.ts'
import type { Queue } from './queue/queue.ts'
import { expireQuotaUses } from './rate-limits/stores/quotas.ts'
import { expireLimitWindows } from './rate-limits/stores/windows.ts'
import { expireReports } from './reports/expire.ts'
import { type GenerateOptions, generate } from './reports/generate/generate.ts'
import type { Produce } from './reports/generate/report-threads.ts'
import type { ReportAccess, ServedReport } from './reports/report-types.ts'
import { sweepClock } from './storage/clock.ts'
import type { Database } from './storage/database.ts'
import { expireDeletedRows } from './storage/deleted-rows.ts'
import type { Sealer } from './storage/encryption.ts'
import type { RandomBytes } from './storage/ids.ts'
import { expireRequestCounts } from './storage/request-counts.ts'
import { expireChanges } from './storage/row-changes/watch.ts'
import { pacedWrites, type Swept, sweepEvery } from './storage/sweep.ts'
import { expireTraffic } from './traffic/counter.ts'
import { expireRequestLog } from './traffic/request-log.ts'
import { expireVersionCalls } from './versioning/call-counts.ts'
import { enqueueManual } from './webhooks/deliveries/enqueue.ts'
import { replaySelected } from './webhooks/deliveries/replay.ts'
import { settleRest } from './webhooks/deliveries/settle.ts'
import { type BoundOptions, waitingBound } from './webhooks/deliveries/waiting-bound.ts'
import type { Dispatch, DispatchOptions } from './webhooks/dispatch/dispatch-options.ts'
import { startDispatch } from './webhooks/dispatch/dispatcher.ts'
import { fanOut } from './webhooks/dispatch/fan-out.ts'
import type { Sender } from './webhooks/dispatch/http-client.ts'
import { type EventShapes, storedShapes } from './webhooks/event-shapes.ts'
import { expireDeliveries } from './webhooks/expire.ts'
import type { EndpointLimits } from './webhooks/queue/endpoint-queue.ts'
import { reviveOwners } from './webhooks/queue/owners.ts'
import type { WebhookKeys } from './webhooks/secrets.ts'
import { expireStatistics } from './webhooks/statistics.ts'

export interface StartedWork {
  deliveries: Dispatch
  jobs: JobWork
}

export interface WorkerOptions {
  db: Database
  queue: Queue
  results: ResultStore
  sealer: Sealer
  kinds: readonly ServedReport[]
  /** The access rules of the resources, for their events and reports. */
  eventAccess: EventAccess
  reportAccess: ReportAccess
  produce: Produce
  pdfFont: string | null
  resultSeconds: number
  taskSeconds: number
  streams: { historySeconds: number }
  /** How many whole months of the audit log stay in the database; null for all. */
  auditMonths: number | null
  sender: Sender
  webhookKeys: WebhookKeys
  /** Seconds to wait before each attempt of a delivery. */
  schedule: readonly number[]
  lanes: EndpointLimits
  /** Maximum duration of a webhook call in ms. */
  callMs: number
  /** Maximum number of waiting deliveries per owner. */
  maxWaiting: number
  /** Called with each call's outcome. */
  onCalled?: DispatchOptions['onCalled']
  startCallSpan?: DispatchOptions['startSpan']
  onStarted?: (work: StartedWork) => void
  onRecorded: DispatchOptions['onRecorded']
  onDisabled: DispatchOptions['onDisabled']
  onDropped: NonNullable<BoundOptions['onDropped']>
  version: string
  now: () => number
  /** Returns the monotonic time in ms. */
  monotonic: () => number
  random: RandomBytes
  jitter: () => number
  /** Converts events to the field names of an API version. */
  shapes?: EventShapes
  /** Called with each error in background work; `what` describes the work. */
  onError: (error: unknown, what: string) => void
  /** The jobs of the definition. */
  declaredJobs: Pick<JobWorkOptions, 'jobs' | 'redact' | 'onFailed' | 'onEnded'>
  /** How long finished jobs are retained, in seconds. */
  jobSeconds: number
  /** Called instead of `onError` for errors in generating reports; see `GenerateOptions`. */
  onReportFailed?: GenerateOptions['onError']
  onSwept?: (swept: Swept) => void
}

/**
 * Starts the background work: job handlers, webhook dispatch and sweeps. Returns a function that stops everything
 * except the queue: it gives deliveries in flight up to `graceMs` to finish, then releases the rest.
 */
export function startWork(options: WorkerOptions): (graceMs?: number) => Promise<void> {
  const { db, queue, results, kinds, produce, pdfFont, resultSeconds, now, random } = options
  const { sealer, sender, webhookKeys: keys, schedule, lanes, callMs, version, jitter } = options
  const { maxWaiting, onCalled, onRecorded, onDisabled, onDropped, onStarted } = options
  const { eventAccess: access, reportAccess, shapes = storedShapes } = options
  const onError = (error: unknown) => options.onError(error, 'webhooks')
  const { onReportFailed = (error) => options.onError(error, 'reports') } = options
  const jobs = { db, queue, now, random, onError }
  const rendering = { results, kinds, access: reportAccess, produce, pdfFont, resultSeconds }
  const signing = { db, sealer, keys, version, now, random }
  const recording = { queue, limits: lanes, schedule, jitter, onRecorded, onDisabled, startSpan: options.startCallSpan }
  const load = { concurrency, leaseMs: callMs + leaseMarginMs }
  const calling = { sender, access, onError, ...(onCalled && { onCalled }) }
  const deliveries = startDispatch({ ...signing, ...recording, ...load, ...calling })
  queue.work('report.generate', generate({ ...jobs, ...rendering, onError: onReportFailed }))
  const bound = waitingBound({ db, queue, now, random, maxWaiting, onDropped })
  queue.work('event.fan-out', { together: fanOut({ ...jobs, access, bound, shapes, onAdded: deliveries.wake }) })
  queue.work('delivery.send', { together: enqueueManual({ db, onAdded: deliveries.wake }) })
  queue.work('webhook.settle', settleRest({ db, now }))
  queue.work('webhook.replay', replaySelected({ db, now, onAdded: deliveries.wake }))
  const onJobError = (error: unknown) => options.onError(error, 'jobs')
  const declared = startJobs({ ...options, ...options.declaredJobs, onError: onJobError })
  onStarted?.({ deliveries, jobs: declared })
  const stopSweeps = startSweeps(options)
  return async (graceMs = 0) => {
    declared.stop()
    stopSweeps()
    await deliveries.stop(graceMs)
  }
}

/** Starts the sweeps; returns a function that stops them. */
function startSweeps(options: WorkerOptions): () => void {
  const { results, taskSeconds, monotonic, onError, onSwept = () => {} } = options
  const stopping = new AbortController()
  const pause = (ms: number) => wait(ms, undefined, stopping)
  const db = pacedWrites(options.db, { monotonic, pause, signal: stopping.signal })
  const onErrorOf = (what: string) => (error: unknown) => onError(error, what)
  const time = sweepClock(db, monotonic, onErrorOf('sweeps'))
  const sweeping = { onError, onSwept, monotonic, time }
  const stop = sweepEvery(sweepMs, sweeping, (now) => ({
    'reports and their files': expireReports({ db, results, now, taskSeconds, onError: onErrorOf('sweep of reports') }),
    'webhook deliveries': () => expireDeliveries(db, now),
    'webhook statistics': () => expireStatistics(db, now),
    // Returns 0 because this sweep removes no rows.
    'owners of webhooks': () => reviveOwners(db, now).then(() => 0),
    'tokens and sessions': () => sweepExpired(db, now),
    jobs: () => expireJobs(db, now, options.jobSeconds),
    'request counts': () => expireRequestCounts(db, now),
    'calls of deprecated versions': () => expireVersionCalls(db, now),
    'unused files': () => removeUnusedFiles({ db, store: results, now, onError: onErrorOf('sweep of files') }),
    'deleted resources': () => expireDeletedRows(db, now),
    invitations: () => sweepInvitations(db, now),
    'login attempts': () => sweepLoginTries(db, now),
    'stored responses': () => deleteExpiredResponses(db, now),
    'rate-limit windows': () => expireLimitWindows(db, now),
    'quota usage': () => expireQuotaUses(db, now),
    'lost nodes': () => expireNodes(db, now),
    'metrics history': () => expireSamples(db, now),
    traffic: () => expireTraffic(db, now),
    'request log': () => expireRequestLog(db, now),
    'logged changes': () => expireChanges(db, now, options.streams.historySeconds * 1_000),
  }))
  const archive = { db: options.db, paced: db, store: results, sealer: options.sealer, clock: options.now }
  // Archiving runs separately, because a month may take minutes to archive.
  const stopArchive = sweepEvery(sweepMs, sweeping, (now) => ({
    'archived audit entries': archiveAudit({ ...archive, months: options.auditMonths, now }),
  }))
  return () => {
    stop()
    stopArchive()
    stopping.abort()
  }
}

/**
 * Maximum number of calls in flight in this process. High enough to leave slots free even if each of a hundred dead
 * endpoints occupies a few.
 */
const concurrency = 512
/** How much longer a lease lasts than the longest call, to leave time for recording the outcome. */
const leaseMarginMs = 5_000
const sweepMs = 60_000
