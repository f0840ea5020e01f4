import type { FastifyInstance } from 'fastify'
import { buildApp } from './app.ts'
import { type Audit, auditPlaintextCredential, openAudit } from './audit/buffer.ts'
import { openAuthorization } from './authorization.ts'
import { baseUrlOf, type Config } from './config/config.ts'
import type { Definition } from './definition/service.ts'
import type { Refusals } from './http/server/connections.ts'
import { freePort, listenersOf, patienceOf } from './listeners.ts'
import type { Log } from './logging/entries.ts'
import type { Logs } from './logging/logs.ts'
import { logAudit, logAuthorization, logStores, openServiceLogs, statementsIn } from './logging/notices.ts'
import { type Metrics, openMetrics } from './metrics/metrics.ts'
import { nodeFacts } from './nodes/node.ts'
import { checkBeforeMigration } from './nodes/nodes.ts'
import { type OnClose, openParts } from './parts.ts'
import { checkReports } from './reports/generate/check.ts'
import { openServedStores } from './served-stores.ts'
import { ensureTextIndexes } from './storage/postgres/text-index.ts'
import type { Stores } from './stores.ts'
import { serverCertificates } from './tls/certificates.ts'
import { versionLives } from './version-lifecycle.ts'
import { startWork, type WorkerOptions } from './worker.ts'

/** A running service. */
export interface Service extends Stores {
  baseUrl: string
  log: Log
  /** The CA certificate that clients must trust, if the service created its own. */
  authorityFile: string | null
  /**
   * Stops accepting work, finishes work in progress and releases leases; resolves when nothing is running. Logs the reason,
   * such as a signal.
   */
  close: (reason?: string) => Promise<void>
}

const wall = Date.now
const monotonic = () => performance.now()
const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}
const drainMs = 18_000

/**
 * Starts a service with this definition; resolves once the service accepts requests. If it rejects, nothing is left open.
 */
export async function startService(config: Config, definition: Definition, version: string): Promise<Service> {
  const closers: (() => unknown)[] = []
  /** Runs every closer, even after one has failed, as some do while the database is down. Then throws their errors. */
  const close = async () => {
    const errors: unknown[] = []
    for (const closer of closers.splice(0).reverse()) {
      await (async () => closer())().catch((error: unknown) => errors.push(error))
    }
    if (errors.length > 1) throw new AggregateError(errors, 'Several components did not close')
    if (errors.length === 1) throw errors[0]
  }
  try {
    const { flush, ...service } = await start(config, definition, version, (closer) => closers.push(closer))
    const { log } = service
    const startedAt = monotonic()
    const stop = async (reason = 'closed') => {
      const stoppingAt = monotonic()
      log.info({ reason, uptimeSeconds: Math.round((stoppingAt - startedAt) / 1_000) }, 'service stopping')
      try {
        await close()
        log.info({ ms: Math.round(monotonic() - stoppingAt) }, 'service stopped')
      } catch (err) {
        log.error({ what: 'shutdown', err }, 'background work failed')
        throw err
      } finally {
        flush()
      }
    }
    return { ...service, close: stop }
  } catch (error) {
    // Closing may fail for the same reason, which the first error explains better.
    await close().catch(() => {})
    throw error
  }
}

/** Opens the components in order; they close in reverse order. */
async function start(settings: Config, declared: Definition, version: string, onClose: OnClose) {
  const config = await withPort(settings)
  const lives = versionLives(declared, config.versions.plans)
  const logs = openServiceLogs(config, { out: process.stdout, env: process.env, now: wall })
  onClose(logs.flush)
  const { log } = logs
  const metrics = openMetrics({ version, versions: lives, monotonic, ofProcess: true })
  const { definition, ...stores } = await openData(config, declared, { version, log, metrics, onClose })
  const given = { wall, monotonic, later, env: process.env }
  const parts = await openParts(config, definition, { ...stores, ...given, lives, version, log, metrics, onClose })
  const { revocations, now } = parts
  // Stops together with the listeners, or separately if the start fails before the listeners exist.
  let stopped: Promise<void> | undefined
  const stopQueue = (lastAdded?: Promise<void>) => {
    stopped ??= parts.queue.stop(drainMs, lastAdded)
    return stopped
  }
  onClose(() => stopQueue())
  const certificates = await serverCertificates(config, stores.dataDir, now)
  if (certificates?.created) log.info({ authority: certificates.authorityFile }, 'certificate created')
  const baseUrl = baseUrlOf(config)
  watchComponents(config, metrics, { ...stores, ...parts, log })
  const audit = openAudit({ ...stores, now, onEntry: metrics.onAudit, ...logAudit(log) })
  onClose(audit.flush)
  const reserved = { ...stores, db: stores.db.reserved }
  const access = { config, definition, stores: reserved, baseUrl, audit, ...logAuthorization(log) }
  const authorization = await openAuthorization({ ...access, revocations, now, monotonic })
  onClose(authorization.stop)
  const stopping = new AbortController()
  const served = { ...stores, ...parts, ...authorization, baseUrl, audit, metrics, stopping: stopping.signal }
  const app = await openApp(config, served, certificates, logs)
  const stopWork = startWorkIf(config, { ...parts, ...stores })
  await parts.startBackups()
  const onRefused = (refusals: Refusals) => {
    metrics.onConnectionsRefused(refusals.refused)
    log.warn(refusals, 'connections refused')
  }
  const onPlaintext = auditPlaintextCredential(audit)
  const listeners = listenersOf({ ...served, config, app, stopping, later, onRefused, onPlaintext, log })
  onClose(() => {
    const unreachable = listeners.close()
    return Promise.all([unreachable, stopQueue(unreachable), stopWork?.(drainMs)])
  })
  await listeners.open()
  return { ...stores, baseUrl, log, flush: logs.flush, authorityFile: certificates?.authorityFile ?? null }
}

const startWorkIf = ({ service, storage }: Config, options: Omit<WorkerOptions, 'auditMonths'>) =>
  service.roles.includes('worker') ? startWork({ ...options, auditMonths: storage.auditMonths }) : null

type Watched = Pick<Stores, 'db'> & Pick<Parts, 'queue' | 'results' | 'tableSizes' | 'now' | 'monotonic'>

/** Adds the metrics that are read from the components at each scrape. */
function watchComponents({ backup }: Config, metrics: Metrics, { results, log, ...watched }: Watched & { log: Log }) {
  const onError = (err: unknown) => log.warn({ err }, 'metrics not read')
  metrics.watch({ ...watched, space: results.space, hasBackups: backup.schedule !== null, later, onError })
}

/**
 * Opens the database of a node, logs the changes to its tables, checks the reports against it, and starts to
 * create text indexes.
 */
async function openData(
  config: Config,
  declared: Definition,
  { version, log, metrics, onClose }: { version: string; log: Log; metrics: Metrics; onClose: OnClose },
) {
  const notices = logStores(log)
  const { close, definition, ...stores } = await openServedStores(config, declared, {
    ...{ now: wall, ...notices, onCommit: metrics.onCommit },
    beforeMigration: (db, masterKey) =>
      checkBeforeMigration(db, () => nodeFacts({ config, definition: declared, masterKey, version })),
  })
  onClose(close)
  for (const statement of statementsIn(stores.migrations)) log.info({ statement }, 'resource table changed')
  await checkReports(stores.db, definition.reports)
  onClose(ensureTextIndexes({ db: stores.db, tables: definition.tables, onError: notices.onError }))
  return { definition, ...stores }
}

/** Returns the configuration; if its port is 0, with a port that the operating system chose. */
async function withPort(config: Config): Promise<Config> {
  const { http } = config
  return http.port === 0 ? { ...config, http: { ...http, port: await freePort(http.host) } } : config
}

type Parts = Awaited<ReturnType<typeof openParts>> & { audit: Audit; metrics: Metrics }
type Authorization = Awaited<ReturnType<typeof openAuthorization>>
type Certificates = Awaited<ReturnType<typeof serverCertificates>>

async function openApp(
  config: Config,
  parts: Stores & Parts & Authorization & { baseUrl: string; stopping: AbortSignal },
  certificates: Certificates,
  { log, access }: Pick<Logs, 'log' | 'access'>,
): Promise<FastifyInstance> {
  const { limits, ...others } = parts
  return buildApp({
    ...config.http,
    ...others,
    ...(limits && { limits }),
    overload: { random: Math.random },
    later,
    patience: patienceOf(config),
    tls: certificates,
    api: config.service.roles.includes('api'),
    console: config.service.console === 'on',
    countDeprecated: parts.versionCounter.count,
    log: {
      access,
      fault: (err, requestId, traceId) => log.error({ requestId, traceId, err }, 'request failed'),
    },
  })
}
