import { deleteExpiredResponses } from './idempotency/store.ts'
import { sweepExpired } from './oauth/provider/adapter.ts'
import { sweepInvitations } from './oauth/users/invitations.ts'
import { sweepLoginTries } from './oauth/users/login-throttle.ts'
import { freeJobs } from './queue/embedded.ts'
import type { EventAccess } from './queue/events.ts'
import type { Queue } from './queue/queue.ts'
import { expireQuotaUses } from './rate-limits/stores/quotas.ts'
import { expireLimitWindows } from './rate-limits/stores/windows.ts'
import { expireReports } from './reports/expire.ts'
import type { ResultStore } from './reports/files/store.ts'
import { generate } from './reports/generate/generate.ts'
import type { Produce } from './reports/generate/worker-thread.ts'
import type { ReportAccess, ServedReport } from './reports/report-types.ts'
import { sweepClock } from './storage/clock.ts'
import type { Database } from './storage/database.ts'
import type { Sealer } from './storage/encryption.ts'
import type { RandomBytes } from './storage/ids.ts'
import { expireRequestCounts } from './storage/request-counts.ts'
import { expireVersionCalls } from './versioning/call-counts.ts'
import { enqueueManual } from './webhooks/deliveries/enqueue.ts'
import { replaySelected } from './webhooks/deliveries/replay.ts'
import { settleRest } from './webhooks/deliveries/settle.ts'
import { type BoundOptions, waitingBound } from './webhooks/deliveries/waiting-bound.ts'
import type { DispatchOptions } from './webhooks/dispatch/dispatch-options.ts'
import { startDispatch } from './webhooks/dispatch/dispatcher.ts'
import { fanOut } from './webhooks/dispatch/fan-out.ts'
import type { Sender } from './webhooks/dispatch/http-client.ts'
import { type EventShapes, storedShapes } from './webhooks/event-shapes.ts'
import { expireDeliveries } from './webhooks/expire.ts'
import type { EndpointLimits } from './webhooks/queue/endpoint-queue.ts'
import { reviveOwners } from './webhooks/queue/owners.ts'
import { freeDeliveries } from './webhooks/queue/release.ts'
import type { WebhookKeys } from './webhooks/secrets.ts'

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
  sender: Sender
  webhookKeys: WebhookKeys
  /** Seconds to wait before each attempt of a delivery. */
  schedule: readonly number[]
  /** Per-endpoint delivery limits. */
  lanes: EndpointLimits
  /** Maximum duration of a webhook call in ms. */
  callMs: number
  /** Maximum number of waiting deliveries per owner. */
  maxWaiting: number
  /** Logs failed calls; `onDropped` logs dropped deliveries. */
  onCalled: NonNullable<DispatchOptions['onCalled']>
  onDropped: NonNullable<BoundOptions['onDropped']>
  version: string
  now: () => number
  /** Monotonic clock in ms. */
  monotonic: () => number
  random: RandomBytes
  jitter: () => number
  /** The field names of events by API version. */
  shapes?: EventShapes
  onError: (error: unknown) => void
}

/**
 * Starts the background work: job handlers, webhook dispatch and sweeps. Returns a function that stops everything except the
 * queue: it gives deliveries in flight up to `graceMs` to finish, then releases the rest.
 */
export function startWork(options: WorkerOptions): (graceMs?: number) => Promise<void> {
  const { db, queue, results, kinds, produce, pdfFont, resultSeconds, taskSeconds, now, random, onError } = options
  const { sealer, sender, webhookKeys: keys, schedule, lanes, callMs, version, monotonic, jitter } = options
  const { maxWaiting, onCalled, onDropped, eventAccess: access, reportAccess, shapes = storedShapes } = options
  const jobs = { db, queue, now, random, onError }
  const reports = { ...jobs, results, kinds, access: reportAccess, produce, pdfFont, resultSeconds }
  const signing = { db, sealer, keys, version, now, random }
  const recording = { queue, limits: lanes, schedule, jitter }
  const load = { concurrency, leaseMs: callMs + leaseMarginMs }
  const deliveries = startDispatch({ ...signing, ...recording, ...load, sender, access, onError, onCalled })
  queue.work('report.generate', generate(reports))
  const bound = waitingBound({ db, queue, now, random, maxWaiting, onDropped })
  queue.work('event.fan-out', { together: fanOut({ ...jobs, access, bound, shapes, onAdded: deliveries.wake }) })
  queue.work('delivery.send', { together: enqueueManual({ db, onAdded: deliveries.wake }) })
  queue.work('webhook.settle', settleRest({ db, now }))
  queue.work('webhook.replay', replaySelected({ db, now, onAdded: deliveries.wake }))
  const time = sweepClock(db, monotonic, onError)
  const stopSweeps = sweepEvery(sweepMs, onError, time, (now) => [
    expireReports({ db, results, now, taskSeconds, onError }),
    () => expireDeliveries(db, now),
    () => reviveOwners(db, now),
    () => sweepExpired(db, now),
    () => expireRequestCounts(db, now),
    () => expireVersionCalls(db, now),
    () => sweepInvitations(db, now),
    () => sweepLoginTries(db, now),
    () => deleteExpiredResponses(db, now),
    () => expireLimitWindows(db, now),
    () => expireQuotaUses(db, now),
  ])
  return async (graceMs = 0) => {
    stopSweeps()
    await deliveries.stop(graceMs)
  }
}

/**
 * Maximum number of calls in flight in this process: high enough to leave slots free even if a hundred dead endpoints occupy
 * a few slots each.
 */
const concurrency = 512
/** How much longer a lease lasts than the longest call, to leave time for recording the outcome. */
const leaseMarginMs = 5_000
const sweepMs = 60_000

/**
 * Releases the claims of a process that no longer exists, so that its work continues at once instead of when the leases
 * expire. Call only if no other process uses the database.
 */
export async function takeOver(db: Database, now: () => number): Promise<void> {
  await freeJobs(db)
  await freeDeliveries(db, now())
}

type Sweep = () => Promise<unknown>

/**
 * Runs the sweeps one after another at an interval; `time` gives all sweeps in a round the same time. A failed sweep is
 * reported and runs again in the next round.
 */
function sweepEvery(
  ms: number,
  onError: (error: unknown) => void,
  time: () => Promise<number>,
  sweepsAt: (now: () => number) => Sweep[],
): () => void {
  let running = false
  let at = 0
  const sweeps = sweepsAt(() => at)
  const round = async () => {
    at = await time()
    for (const sweep of sweeps) await sweep().catch(onError)
  }
  const timer = setInterval(async () => {
    if (running) return
    running = true
    await round().catch(onError)
    running = false
  }, ms)
  return () => clearInterval(timer)
}
