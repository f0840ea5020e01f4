import { randomBytes } from 'node:crypto'
import { openCode } from './code/run-jobs.ts'
import { type Config, tracesUrlOf } from './config/config.ts'
import { limitRules } from './config/rate-limits.ts'
import { resultsUrlOf } from './config/storage.ts'
import type { Definition } from './definition/service.ts'
import { eventShapes } from './event-shapes.ts'
import { openResults } from './files/open.ts'
import type { AddressPolicy } from './http/ssrf-guard.ts'
import type { OnClose } from './lifecycle.ts'
import type { Log } from './logging/entries.ts'
import { logCounters, logWebhooks, logWork } from './logging/notices.ts'
import type { Metrics } from './metrics/metrics.ts'
import { reportKinds } from './mount-versions.ts'
import { nodeClock } from './nodes/node-clock.ts'
import { addNode } from './nodes/open.ts'
import type { RevocationEpoch } from './oauth/tokens/revocation-epoch.ts'
import { startObservation } from './observation.ts'
import { type OperationsOptions, openOperations } from './operations/open.ts'
import { openQueue } from './queue/open.ts'
import { openCounters } from './rate-limits/open.ts'
import { reporting, reportThreads } from './reports/generate/report-threads.ts'
import { rowAccess } from './row-access.ts'
import { pooledRandom } from './storage/ids.ts'
import type { Stores } from './stores.ts'
import type { ThreadContext } from './threads/context.ts'
import { sharedRevocations, sharedWakes } from './threads/memory.ts'
import type { Tracing } from './tracing/open.ts'
import { versionCallCounter } from './versioning/call-counts.ts'
import type { VersionStatus } from './versioning/version-of-path.ts'
import { defaultEndpointLimits } from './webhooks/queue/endpoint-queue.ts'
import { webhookKeys } from './webhooks/secrets.ts'

/** How long background work may take to finish when the service closes. */
export const drainMs = 18_000

interface Opening extends Stores {
  version: string
  lifecycles: VersionStatus[]
  env: Readonly<Record<string, string | undefined>>
  log: Log
  metrics: Metrics
  onClose: OnClose
  /** This thread's context; null if the service runs in one thread. */
  thread: ThreadContext | null
  wall: () => number
  monotonic: () => number
  later: (ms: number, run: () => void) => () => void
}

const hourMs = 3_600_000

/** Opens the components that the HTTP service and the background worker share. */
export async function openParts(config: Config, definition: Definition, opening: Opening) {
  const { db, sealer, version, lifecycles, log, metrics, onClose, thread, wall, monotonic } = opening
  const revocations: RevocationEpoch = thread ? sharedRevocations(thread.memory) : { count: 0 }
  const closeLater = <Part extends { close: () => unknown }>(part: Part): Part => {
    onClose(part.close)
    return part
  }
  const onMoved = () => revocations.count++
  const clock = closeLater(await nodeClock({ db, log: thread ? null : log, wall, monotonic, onMoved }))
  const { now } = clock
  const policy = { allowHttp: config.webhooks.allowHttp, allowCidrs: config.webhooks.allowCidrs }
  const resultsUrl = resultsUrlOf(config.storage)
  const results = await openResults(resultsUrl)
  await results.sweepTemporary(now() - hourMs)
  const { onError, onJobFailed, ...work } = logWork(log)
  const onErrorOf = (what: string) => (error: unknown) => onError(error, what)
  const keys = await webhookKeys(db, sealer, (kid) => log.info({ kid }, 'webhook key created'))
  const sending = webhookSending(config.webhooks, opening, now)
  const tracing = await openTraces(config, opening)
  const { factsOf, eventAccess, reportAccess } = rowAccess(definition, { db, now })
  const nodeId = thread?.nodeId ?? (await addNode(config, definition, opening, clock))
  const random = pooledRandom(randomBytes)
  const queue = await openJobQueue(config, now, { ...opening, onJobFailed, tracing })
  const { fetch } = closeLater(await codeFetch(definition, policy))
  return {
    limits: await openLimits(config, now, opening),
    versionCounter: closeLater(versionCallCounter({ db, now, onError: onErrorOf('calls of deprecated versions') })),
    ...{ definition, lifecycles, shapes: eventShapes(definition, lifecycles), policy, results },
    queue,
    ...openCode(definition, { ...opening, config, queue, now, random, factsOf, fetch, revocations }),
    kinds: reportKinds(definition),
    ...{ eventAccess, reportAccess },
    produce: reporting(closeLater(reportThreads({ databaseUrl: db.url, resultsUrl })).produce, metrics.onReport),
    ...sending,
    webhookKeys: keys,
    ...config.reports,
    streams: config.streams,
    ...{ onError, ...work, startCallSpan: tracing?.startCallSpan, startRequestSpan: tracing?.startRequestSpan },
    ...{ version, now, monotonic, clock, revocations, nodeId },
    ...startObservation({ ...opening, ...config.service, node: nodeId, now, random, onErrorOf }),
    ...operationsOf({ ...opening, config, definition, results, now }),
    ...{ random, jitter: Math.random },
  }
}

/** Creates the `fetch` function for the definition's code. If there is no code, does not load the HTTP client. */
async function codeFetch({ code }: Definition, policy: AddressPolicy) {
  if (Object.values(code).every(({ length }) => length === 0)) return { fetch: refuseFetch, close: () => {} }
  return (await import('./code/guarded-fetch.ts')).guardedFetch({ policy })
}

const refuseFetch: typeof fetch = () => Promise.reject(new Error('A service without code fetches nothing'))

type QueueParts = Opening & Pick<ReturnType<typeof logWork>, 'onJobFailed'> & { tracing: Tracing | undefined }

/**
 * Opens the queue. Normally, the queue stops together with the listeners; the close callback is needed only if startup
 * fails before that.
 */
async function openJobQueue(config: Config, now: () => number, parts: QueueParts) {
  const { db, metrics, thread, onClose, onJobFailed, tracing } = parts
  const queue = await openQueue({
    ...{ db, now, random: Math.random, wakes: thread && sharedWakes(thread.memory) },
    ...{ onError: onJobFailed, onRun: metrics.onRun, startSpan: tracing?.startJobSpan },
    ...{ isWorker: config.service.roles.includes('worker'), concurrency: { 'job.run': config.jobs.jobConcurrency } },
  })
  onClose(() => queue.stop(drainMs))
  return queue
}

/** Creates the data sources and actions of the operator routes. All work in progress stops when the service closes. */
function operationsOf(opening: Opening & OperationsOptions) {
  const { stop, ...opened } = openOperations(opening)
  opening.onClose(stop)
  return opened
}

/** Starts exporting traces if a collector is configured; only then is the OpenTelemetry SDK loaded. */
async function openTraces(
  config: Config,
  { version, log, onClose, monotonic, later }: Opening,
): Promise<Tracing | undefined> {
  const url = tracesUrlOf(config)
  if (url === null) return undefined
  const { openTracing } = await import('./tracing/open.ts')
  const onLost = (err: unknown, spans: number) => log.warn({ spans, err }, 'traces not exported')
  const tracing = openTracing({ settings: config.tracing, url, version, monotonic, later, onLost })
  onClose(tracing.close)
  return tracing
}

/**
 * Creates the rate limiter and opens its counters; null if nothing is limited. Logs an unavailable store as a warning,
 * not an error.
 */
async function openLimits({ rateLimits }: Config, now: () => number, opening: Opening) {
  const { db, log, later, monotonic, thread, onClose } = opening
  const rules = limitRules(rateLimits)
  if (rules === null) return null
  const { redisUrl } = rateLimits
  const sharing = thread && { divisor: thread.divisor }
  const counters = await openCounters({ db, redisUrl, now, later, ...sharing, onNotice: logCounters(log) })
  onClose(counters.close)
  return { rules, monotonic, counters, memory: thread?.memory.limits ?? null }
}

/** Converts the settings to options for webhook dispatch, including its logging and metrics. */
function webhookSending(settings: Config['webhooks'], { log, metrics }: Opening, now: () => number) {
  const { timeoutSeconds, inFlight, rate, maxWaiting, schedule } = settings
  const notices = logWebhooks(log, { now, maxWaiting })
  return {
    callMs: timeoutSeconds * 1_000,
    lanes: {
      ...defaultEndpointLimits,
      inFlight,
      perSecond: rate === 0 ? Number.POSITIVE_INFINITY : rate,
      probeSeconds: Math.min(defaultEndpointLimits.probeSeconds, timeoutSeconds),
    },
    schedule,
    maxWaiting,
    ...notices,
    onCalled: metrics.onCalled,
    onDropped: (owner: string, dropped: number) => {
      metrics.onDropped(owner, dropped)
      notices.onDropped(owner, dropped)
    },
  }
}
