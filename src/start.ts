import { randomBytes } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { type Logger, pino } from 'pino'
import { buildApp, plaintextTold } from './app.ts'
import type { Endings } from './auth/endings.ts'
import { openAuthorization } from './authorization.ts'
import { baseUrlOf, type Config, resultsUrlOf } from './config.ts'
import { type Audit, openAudit } from './db/audit-buffer.ts'
import { pooledRandom } from './db/pooled-random.ts'
import { ensureTextIndexes } from './db/postgres-text-index.ts'
import { requestCounter } from './db/request-counts.ts'
import { versionCallCounter } from './db/version-calls.ts'
import type { Definition } from './definition.ts'
import { freePort } from './free-port.ts'
import { type Access, accessTexts } from './http/log.ts'
import type { Life } from './http/version-life.ts'
import { openCounters } from './limit-counters.ts'
import { limitRules } from './limit-settings.ts'
import { listenersOf } from './listeners.ts'
import { type LogSink, logSink } from './log-sink.ts'
import { nodeClock } from './node-clock.ts'
import { openQueue } from './queue/open.ts'
import { reportBounds } from './report-settings.ts'
import { refuseWrongReports } from './resources/reports/check.ts'
import { inThread } from './resources/reports/in-thread.ts'
import { webhookKeys } from './resources/webhooks/secrets.ts'
import { sender } from './resources/webhooks/send.ts'
import { openResults } from './results/open.ts'
import { openServedStores } from './served-stores.ts'
import { serverCertificates } from './server-certificates.ts'
import type { Stores } from './stores.ts'
import { versionLives } from './version-lives.ts'
import { reportKinds } from './versions.ts'
import { webhookSending } from './webhook-sending.ts'
import { startWork } from './worker.ts'

/** A running service. */
export interface Service extends Stores {
  /** Where clients reach it. */
  baseUrl: string
  /** The certificate to trust, when the service made its own. */
  authorityFile: string | null
  /** Stops taking work, ends what is under way, gives back leases; resolves when nothing is left running. */
  close: () => Promise<void>
}

const wall = Date.now
const monotonic = () => performance.now()
const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}
const drainMs = 18_000
const hourMs = 3_600_000

/** Starts a definition as configured; resolves when requests are answered, rejects with nothing left open. */
export async function startService(config: Config, definition: Definition, version: string): Promise<Service> {
  const closers: (() => unknown)[] = []
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer()
  }
  try {
    return { ...(await start(config, definition, version, (closer) => closers.push(closer))), close }
  } catch (error) {
    await close()
    throw error
  }
}

type OnClose = (closer: () => unknown) => void
type Opening = Stores & { version: string; log: Logger; onClose: OnClose }

/** Opens part after part; what is opened last is closed first. */
async function start(given: Config, definition: Definition, version: string, onClose: OnClose) {
  const config = given.port === 0 ? { ...given, port: await freePort(given.host) } : given
  const lives = versionLives(definition, config.versions)
  const sink = logSink(process.stdout)
  onClose(sink.flush)
  const log = pino({ level: config.logLevel }, sink)
  const logs = { log, access: accessWriter(log, sink) }
  const indexFailed = (error: unknown) => log.error({ err: error }, 'the index of text could not be made')
  const { close, ...stores } = await openServedStores(config, definition.tables, { now: wall, onError: indexFailed })
  onClose(close)
  await refuseWrongReports(stores.db, definition.reports)
  onClose(ensureTextIndexes({ db: stores.db, tables: definition.tables, onError: indexFailed }))
  const parts = { lives, ...(await openParts(config, definition, { ...stores, version, log, onClose })) }
  const { endings, now } = parts
  // Stopped together with the listeners; or alone, when the start fails before there are any.
  let stopped: Promise<void> | undefined
  const stopQueue = (lastAdded?: Promise<void>) => {
    stopped ??= parts.queue.stop(drainMs, lastAdded)
    return stopped
  }
  onClose(() => stopQueue())
  const certificates = await serverCertificates(config, stores.dataDir, now)
  const baseUrl = baseUrlOf(config)
  const audit = openAudit({ ...stores, now, onError: (error) => log.error({ err: error }, 'the audit log is behind') })
  onClose(audit.flush)
  const report = (error: unknown) => log.error({ err: error }, 'the authorization server failed')
  const letsIn = { ...stores, db: stores.db.reserved }
  const about = { config, scopes: definition.scopes, stores: letsIn, baseUrl, audit, endings, now, monotonic, report }
  const authorization = await openAuthorization(about)
  onClose(authorization.stop)
  const stopping = new AbortController()
  const served = { ...stores, ...parts, ...authorization, baseUrl, audit, stopping: stopping.signal }
  const app = await openApp(config, served, certificates, logs)
  const stopWork = config.roles.includes('worker') ? startWork({ ...parts, ...stores }) : null
  const onRefused = (refusals: object) => log.warn(refusals, 'connections were refused')
  const listeners = listenersOf({ config, app, stopping, baseUrl, later, onRefused, onPlaintext: plaintextTold(audit) })
  onClose(() => {
    const unreachable = listeners.close()
    return Promise.all([unreachable, stopQueue(unreachable), stopWork?.(drainMs)])
  })
  await listeners.open()
  return { ...stores, baseUrl, authorityFile: certificates?.authorityFile ?? null }
}

/** What both the HTTP service and the background service work with. */
async function openParts(config: Config, definition: Definition, { db, sealer, version, log, onClose }: Opening) {
  const endings: Endings = { count: 0 }
  const opened = <Part extends { close: () => unknown }>(part: Part): Part => {
    onClose(part.close)
    return part
  }
  const clock = opened(await nodeClock({ db, log, wall, monotonic, onMoved: () => endings.count++ }))
  const { now } = clock
  const policy = { allowHttp: config.webhookAllowHttp, allowCidrs: config.webhookAllowCidrs }
  const resultsUrl = resultsUrlOf(config)
  const results = await openResults(resultsUrl)
  await results.sweepTemporary(now() - hourMs)
  const onError = (error: unknown, queue?: string) => log.error({ err: error, queue }, 'a job failed')
  const keys = await webhookKeys(db, sealer)
  const sending = webhookSending(config, log, now)
  const rules = limitRules(config)
  return {
    limits: rules && { rules, monotonic, counters: opened(await openLimits(config, db, now, log)) },
    counter: opened(requestCounter({ db, now, onError })),
    versionCounter: opened(versionCallCounter({ db, now, onError })),
    definition,
    policy,
    results,
    queue: await openQueue({ db, now, random: Math.random, onError }),
    kinds: reportKinds(definition),
    produce: inThread({ databaseUrl: db.url, resultsUrl }),
    pdfFont: config.pdfFont,
    sender: opened(sender({ policy, timeoutMs: sending.callMs, now })),
    ...sending,
    webhookKeys: keys,
    ...reportBounds(config),
    onError,
    ...{ version, now, monotonic, clock, endings },
    random: pooledRandom(randomBytes),
    jitter: Math.random,
  }
}

/** Where calls are counted; what becomes of a store that is away is a warning, not a fault. */
const openLimits = ({ redisUrl }: Config, db: Stores['db'], now: () => number, log: Logger) =>
  openCounters({ db, redisUrl, now, later, onError: (error, what) => log.warn({ err: error }, what) })

const accessWriter = (log: Logger, { write }: LogSink, textOf = accessTexts()): Access =>
  log.isLevelEnabled('info') ? (line) => write(textOf(line, wall())) : () => {}

type Parts = Awaited<ReturnType<typeof openParts>> & { audit: Audit; lives: Life[] }
type Authorization = Awaited<ReturnType<typeof openAuthorization>>
type Certificates = Awaited<ReturnType<typeof serverCertificates>>

async function openApp(
  config: Config,
  parts: Stores & Parts & Authorization & { baseUrl: string; stopping: AbortSignal },
  certificates: Certificates,
  { log, access }: { log: Logger; access: Access },
): Promise<FastifyInstance> {
  const { limits, ...others } = parts
  return buildApp({
    ...others,
    ...(limits && { limits }),
    overload: { random: Math.random },
    later,
    patience: { keepAliveTimeout: config.keepAliveSeconds * 1_000 },
    tls: certificates,
    api: config.roles.includes('api'),
    trustedProxies: config.trustedProxies,
    corsOrigins: config.corsOrigins,
    publicRead: config.publicRead,
    requireIfMatch: config.requireIfMatch,
    count: parts.counter.count,
    countDeprecated: parts.versionCounter.count,
    log: {
      access,
      fault: (error, requestId) => log.error({ err: error, requestId }, 'a request failed'),
    },
  })
}
