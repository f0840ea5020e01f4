import { baseUrlOf, type Config } from './config/config.ts'
import type { Definition } from './definition/service.ts'
import { later, loggingClose, monotonic, openAll, type Service, wall } from './lifecycle.ts'
import type { Log } from './logging/entries.ts'
import { logStores, openServiceLogs, statementsIn } from './logging/notices.ts'
import { type Metrics, openMetrics } from './metrics/metrics.ts'
import { nodeFacts } from './nodes/node.ts'
import { checkBeforeMigration } from './nodes/nodes.ts'
import { type OnClose, openParts } from './parts.ts'
import { checkReports } from './reports/generate/check.ts'
import { openServedStores, openThreadStores } from './served-stores.ts'
import { freePort } from './serving/listeners.ts'
import { openServed } from './serving/open.ts'
import { ensureTextIndexes } from './storage/postgres/text-index.ts'
import type { Sharing, Stores } from './stores.ts'
import type { ThreadContext } from './threads/context.ts'
import { versionLives } from './version-lifecycle.ts'
import { startWork, type WorkerOptions } from './worker.ts'

const drainMs = 18_000

/**
 * Starts a service with this definition; resolves once the service accepts requests. If it rejects, nothing is left open.
 */
export async function startService(config: Config, definition: Definition, version: string): Promise<Service> {
  const opened = await openAll((onClose) => start(config, definition, { version, thread: null, onClose }))
  return loggingClose(opened)
}

/** Starts one thread of a service, which `startThreads` has prepared. */
export const startThread = (config: Config, definition: Definition, version: string, thread: ThreadContext) =>
  openAll((onClose) => start(config, definition, { version, thread, onClose }))

export interface Starting {
  version: string
  thread: ThreadContext | null
  onClose: OnClose
}

/** Opens the components in order; they close in reverse order. */
async function start(settings: Config, declared: Definition, { version, thread, onClose }: Starting) {
  const config = await withPort(settings)
  const lives = versionLives(declared, config.versions.plans)
  const logs = openServiceLogs(config, { out: thread?.out ?? process.stdout, env: process.env, now: wall })
  onClose(logs.flush)
  const { log } = logs
  const others = thread ? { others: thread.others } : {}
  const metrics = openMetrics({ version, versions: lives, monotonic, ofProcess: true, ...others })
  const common = { version, log, metrics, onClose, thread }
  const { onCommit } = metrics
  const { definition, ...stores } = await openData(config, declared, { ...common, ...sharingOf(thread), onCommit })
  const given = { wall, monotonic, later, env: process.env }
  const parts = await openParts(config, definition, { ...stores, ...given, ...common, lives })
  // Stops together with the listeners, or separately if the start fails before the listeners exist.
  let stopped: Promise<void> | undefined
  const stopQueue = (lastAdded?: Promise<void>) => {
    stopped ??= parts.queue.stop(drainMs, lastAdded)
    return stopped
  }
  onClose(() => stopQueue())
  watchComponents(config, metrics, { ...stores, ...parts, log })
  const opened = { ...stores, ...parts, ...given, metrics }
  const served = thread?.role === 'background' ? null : await openServed(config, opened, { logs, onClose, thread })
  const stopWork = startWorkIf(config, { ...parts, ...stores })
  await parts.startBackups()
  onClose(() => {
    const unreachable = served?.listeners.close()
    return Promise.all([unreachable, stopQueue(unreachable), stopWork?.(drainMs)])
  })
  await served?.listeners.open()
  const { baseUrl = baseUrlOf(config), authorityFile = null } = served ?? {}
  return { ...stores, baseUrl, log, flush: logs.flush, authorityFile, counted: metrics.counted }
}

const startWorkIf = ({ service, storage }: Config, options: Omit<WorkerOptions, 'auditMonths'>) =>
  service.roles.includes('worker') ? startWork({ ...options, auditMonths: storage.auditMonths }) : null

type Parts = Awaited<ReturnType<typeof openParts>>
type Watched = Pick<Stores, 'db'> & Pick<Parts, 'queue' | 'results' | 'tableSizes' | 'now' | 'monotonic'>

/** Adds the metrics that are read from the components at each scrape. */
function watchComponents({ backup }: Config, metrics: Metrics, { results, log, ...watched }: Watched & { log: Log }) {
  const onError = (err: unknown) => log.warn({ err }, 'metrics not read')
  metrics.watch({ ...watched, space: results.space, hasBackups: backup.schedule !== null, later, onError })
}

interface OpeningData extends Sharing, Pick<Starting, 'version' | 'onClose'> {
  log: Log
  onCommit: Metrics['onCommit']
  /** Whether the main thread has migrated and locked the database. */
  isPrepared?: boolean
}

const sharingOf = (thread: ThreadContext | null): Pick<OpeningData, 'isPrepared' | 'shared' | 'divisor'> =>
  thread === null
    ? {}
    : { isPrepared: true, shared: { memory: thread.memory.sqlite, thread: thread.number }, divisor: thread.divisor }

/**
 * Opens the database of a node, logs the changes to its tables, checks the reports against it, and starts to
 * create text indexes.
 */
export async function openData(
  config: Config,
  declared: Definition,
  { version, log, onCommit, onClose, ...shared }: OpeningData,
) {
  const notices = logStores(log)
  const { isPrepared = false, ...sharing } = shared
  const callbacks = { now: wall, ...notices, onCommit }
  if (isPrepared) {
    const { close, ...stores } = await openThreadStores(config, declared, sharing, callbacks)
    onClose(close)
    return stores
  }
  const { close, definition, ...stores } = await openServedStores(
    config,
    declared,
    {
      ...callbacks,
      beforeMigration: (db, masterKey) =>
        checkBeforeMigration(db, () => nodeFacts({ config, definition: declared, masterKey, version })),
    },
    sharing,
  )
  onClose(close)
  for (const statement of statementsIn(stores.migrations)) log.info({ statement }, 'resource table changed')
  await checkReports(stores.db, definition.reports)
  onClose(ensureTextIndexes({ db: stores.db, tables: definition.tables, onError: notices.onError }))
  return { definition, ...stores }
}

/** Returns the configuration; if its port is 0, with a port that the operating system chose. */
export async function withPort(config: Config): Promise<Config> {
  const { http } = config
  return http.port === 0 ? { ...config, http: { ...http, port: await freePort(http.host) } } : config
}
