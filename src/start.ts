import { logRejections } from './code/services.ts'
import { baseUrlOf, type Config } from './config/config.ts'
import type { Definition } from './definition/service.ts'
import { later, loggingClose, monotonic, type OnClose, openAll, type Service, wall } from './lifecycle.ts'
import type { Log } from './logging/entries.ts'
import { openServiceLogs } from './logging/notices.ts'
import { type Metrics, openMetrics } from './metrics/metrics.ts'
import { openData } from './nodes/open.ts'
import { drainMs, openParts } from './parts.ts'
import { type Connections, withPort } from './serving/listeners.ts'
import type { Stores } from './stores.ts'
import type { ThreadContext } from './threads/context.ts'
import { versionLifecycles } from './version-lifecycle.ts'
import type { SenderOptions } from './webhooks/dispatch/http-client.ts'
import type { WorkerOptions } from './worker.ts'

/**
 * Starts a service with this definition; resolves once the service accepts requests. If it rejects, nothing is left
 * open.
 */
export async function startService(
  config: Config,
  definition: Definition,
  version: string,
  connections: Connections | null = null,
): Promise<Service> {
  const opened = await openAll((onClose) => start(config, definition, { version, thread: null, connections, onClose }))
  return loggingClose(opened)
}

/** Starts one thread of a service, which `startThreads` has prepared. */
export const startThread = (config: Config, definition: Definition, version: string, thread: ThreadContext) =>
  openAll((onClose) => start(config, definition, { version, thread, connections: null, onClose }))

export interface Starting {
  version: string
  thread: ThreadContext | null
  connections: Connections | null
  onClose: OnClose
}

/** Opens the components in order; they close in reverse order. */
async function start(settings: Config, declared: Definition, { version, thread, connections, onClose }: Starting) {
  const config = await withPort(settings)
  const lifecycles = versionLifecycles(declared, config.versions.plans)
  const logs = openServiceLogs(config, { out: thread?.out ?? process.stdout, env: process.env, now: wall })
  for (const closer of [logs.flush, logRejections(logs.log)]) onClose(closer)
  const { log } = logs
  const others = thread ? { others: thread.others } : {}
  const metrics = openMetrics({
    version,
    versions: lifecycles,
    monotonic,
    ofThread: thread?.role ?? 'serve',
    ...others,
  })
  const common = { version, log, metrics, onClose, thread }
  const { onCommit } = metrics
  const { definition, ...stores } = await openData(config, declared, { ...common, ...sharingOf(thread), onCommit })
  const given = { wall, monotonic, later, env: process.env }
  const parts = await openParts(config, definition, { ...stores, ...given, ...common, lifecycles })
  watchComponents(config, metrics, { ...stores, ...parts, log })
  const opened = { ...stores, ...parts, ...given, metrics }
  const served =
    thread?.role === 'background' ? null : await openServed(config, opened, { logs, onClose, thread, connections })
  const stopWork = await startWork(config, { ...parts, ...stores, onClose })
  await parts.startBackups()
  onClose(() => {
    const unreachable = served?.listeners.close()
    return Promise.all([unreachable, parts.queue.stop(drainMs, unreachable), stopWork?.(drainMs)])
  })
  await served?.listeners.open()
  const { baseUrl = baseUrlOf(config), authorityFile = null } = served ?? {}
  return { ...stores, baseUrl, log, flush: logs.flush, authorityFile, counted: metrics.counted }
}

/** Opens the app and its listeners. Imported on demand, so that the thread for background work does not load them. */
const openServed: typeof import('./serving/open.ts').openServed = async (...given) =>
  (await import('./serving/open.ts')).openServed(...given)

type WorkParts = Omit<WorkerOptions, 'auditMonths' | 'sender'> & Pick<SenderOptions, 'policy'> & { onClose: OnClose }

/** Starts the background work and loads its code, if this process or thread is responsible for it. */
async function startWork({ service, storage }: Config, { policy, onClose, ...parts }: WorkParts) {
  if (!service.roles.includes('worker')) return null
  const { sender: openSender } = await import('./webhooks/dispatch/http-client.ts')
  const sender = openSender({ policy, timeoutMs: parts.callMs, now: parts.now })
  onClose(sender.close)
  return (await import('./worker.ts')).startWork({ ...parts, sender, auditMonths: storage.auditMonths })
}

type Parts = Awaited<ReturnType<typeof openParts>>
type Watched = Pick<Stores, 'db'> & Pick<Parts, 'queue' | 'results' | 'tableSizes' | 'now' | 'monotonic'>

/** Adds the metrics that are read from the components at each scrape. */
function watchComponents({ backup }: Config, metrics: Metrics, { results, log, ...watched }: Watched & { log: Log }) {
  const onError = (err: unknown) => log.warn({ err }, 'metrics not read')
  metrics.watch({ ...watched, space: results.space, hasBackups: backup.schedule !== null, later, onError })
}

const sharingOf = (thread: ThreadContext | null): Partial<Parameters<typeof openData>[2]> =>
  thread === null
    ? {}
    : { isPrepared: true, shared: { memory: thread.memory.sqlite, thread: thread.number }, divisor: thread.divisor }
