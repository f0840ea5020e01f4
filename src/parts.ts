import { randomBytes } from 'node:crypto'
import { type Config, tracesUrlOf } from './config/config.ts'
import { limitRules } from './config/rate-limits.ts'
import { resultsUrlOf } from './config/storage.ts'
import type { Definition } from './definition/service.ts'
import { eventShapes } from './event-shapes.ts'
import { openResults } from './files/open.ts'
import type { Log } from './logging/entries.ts'
import { logCounters, logWebhooks, logWork } from './logging/notices.ts'
import type { Metrics } from './metrics/metrics.ts'
import { reportKinds } from './mount-versions.ts'
import { nodeFacts } from './nodes/node.ts'
import { nodeClock } from './nodes/node-clock.ts'
import { registerNode } from './nodes/nodes.ts'
import type { RevocationEpoch } from './oauth/tokens/revocation-epoch.ts'
import { type ObservationOptions, startObservation } from './observation.ts'
import { type OperationsOptions, openOperations } from './operations/open.ts'
import { openQueue } from './queue/open.ts'
import { openCounters } from './rate-limits/open.ts'
import { inThread, reporting } from './reports/generate/worker-thread.ts'
import { rowAccess } from './row-access.ts'
import type { SharedClock } from './storage/clock.ts'
import { pooledRandom } from './storage/ids.ts'
import { existingMasterKey, type Stores } from './stores.ts'
import type { ThreadContext } from './threads/context.ts'
import { sharedRevocations, sharedWakes } from './threads/memory.ts'
import type { Tracing } from './tracing/open.ts'
import { versionCallCounter } from './versioning/call-counts.ts'
import type { VersionStatus } from './versioning/version-of-path.ts'
import { sender } from './webhooks/dispatch/http-client.ts'
import { defaultEndpointLimits } from './webhooks/queue/endpoint-queue.ts'
import { webhookKeys } from './webhooks/secrets.ts'

/** Registers a closer; closers run in reverse order. */
export type OnClose = (closer: () => unknown) => void

interface Opening extends Stores {
  version: string
  lives: VersionStatus[]
  env: Readonly<Record<string, string | undefined>>
  log: Log
  metrics: Metrics
  onClose: OnClose
  /** Null if the service runs in one thread. */
  thread: ThreadContext | null
  wall: () => number
  monotonic: () => number
  later: (ms: number, run: () => void) => () => void
}

const hourMs = 3_600_000

/** Opens the components that the HTTP service and the background worker share. */
export async function openParts(config: Config, definition: Definition, opening: Opening) {
  const { db, sealer, version, lives, log, metrics, onClose, thread, wall, monotonic } = opening
  const revocations: RevocationEpoch = thread ? sharedRevocations(thread.memory) : { count: 0 }
  const closeLater = <Part extends { close: () => unknown }>(part: Part): Part => {
    onClose(part.close)
    return part
  }
  const clock = closeLater(await nodeClock({ db, log, wall, monotonic, onMoved: () => revocations.count++ }))
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
  const { eventAccess, reportAccess } = rowAccess(definition, { db, now })
  const nodeId = thread?.nodeId ?? (await addNode(config, definition, opening, clock))
  const random = pooledRandom(randomBytes)
  return {
    limits: await openLimits(config, now, opening),
    versionCounter: closeLater(versionCallCounter({ db, now, onError: onErrorOf('calls of deprecated versions') })),
    ...{ definition, lives, shapes: eventShapes(definition, lives), policy, results },
    queue: await openQueue({
      ...{ db, now, random: Math.random, wakes: thread && sharedWakes(thread.memory) },
      ...{ onError: onJobFailed, onRun: metrics.onRun, startSpan: tracing?.startJobSpan },
    }),
    kinds: reportKinds(definition),
    ...{ eventAccess, reportAccess },
    produce: reporting(inThread({ databaseUrl: db.url, resultsUrl }), metrics.onReport),
    sender: closeLater(sender({ policy, timeoutMs: sending.callMs, now })),
    ...sending,
    webhookKeys: keys,
    ...config.reports,
    ...{ onError, ...work, startCallSpan: tracing?.startCallSpan, startRequestSpan: tracing?.startRequestSpan },
    ...{ version, now, monotonic, clock, revocations, nodeId },
    ...observation(config, { ...opening, node: nodeId, now, random, onErrorOf }),
    ...operationsOf({ ...opening, config, definition, results, now }),
    ...{ random, jitter: Math.random },
  }
}

type Joining = Pick<Opening, 'db' | 'dataDir' | 'version' | 'log' | 'onClose'>

/**
 * Adds this process to the nodes until it closes; returns its id. Call it before the queue is opened, because after a
 * refusal only what already has a closer is closed.
 */
export async function addNode(
  config: Config,
  definition: Definition,
  { db, dataDir, version, log, onClose }: Joining,
  clock: SharedClock,
): Promise<string> {
  const masterKey = existingMasterKey(config.storage.masterKey, dataDir) ?? Buffer.alloc(0)
  const { id, leave } = await registerNode({
    ...{ db: db.reserved, clock, random: randomBytes },
    facts: nodeFacts({ config, definition, masterKey, version }),
    onDiffering: (differences) => log.warn({ differences }, 'nodes differ'),
    onError: (err) => log.error({ what: 'nodes', err }, 'background work failed'),
  })
  onClose(leave)
  return id
}

/** Opens what operators can see and do, until the service closes. */
function operationsOf(opening: Opening & OperationsOptions) {
  const { stop, ...opened } = openOperations(opening)
  opening.onClose(stop)
  return opened
}

type Observed = Opening & Pick<ObservationOptions, 'node' | 'now' | 'random' | 'onErrorOf'>

/** Starts to record the responses of this process until it closes. */
function observation(config: Config, options: Observed) {
  const { requestLogRate } = config.service
  const { thread } = options
  // Each thread stores rows of its own, under a name of its own.
  const node = thread === null ? options.node : `${options.node}.${thread.number}`
  const samples = thread === null || thread.number === 1
  const { onResponse, close } = startObservation({ ...options, node, samples, requestLogRate })
  options.onClose(close)
  return { onResponse, requestLogRate }
}

/** Starts exporting traces if a collector is configured; only then is the SDK of OpenTelemetry loaded. */
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

/** Opens the rate limits and their counters; null if nothing is limited. Logs an unavailable store as a warning, not an error. */
async function openLimits({ rateLimits }: Config, now: () => number, opening: Opening) {
  const { db, log, later, monotonic, thread, onClose } = opening
  const rules = limitRules(rateLimits)
  if (rules === null) return null
  const { redisUrl } = rateLimits
  const counters = await openCounters({ db, redisUrl, now, later, onNotice: logCounters(log) })
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
