import type { LoadedDefinition } from '../cli/load-definition.ts'
import { logRejections } from '../code/services.ts'
import { baseUrlOf, type Config } from '../config/config.ts'
import { threadsOf } from '../config/service.ts'
import { later, loggingClose, monotonic, type OnClose, openAll, type Service, wall } from '../lifecycle.ts'
import { openServiceLogs } from '../logging/notices.ts'
import { nodeClock } from '../nodes/node-clock.ts'
import { addNode, openData } from '../nodes/open.ts'
import { refusePortInUse, withPort } from '../serving/listeners.ts'
import { serverCertificates } from '../tls/certificates.ts'
import { versionLifecycles } from '../version-lifecycle.ts'
import { threadMemory } from './memory.ts'
import type { ThreadRole } from './messages.ts'
import { startThreads } from './supervisor.ts'

/**
 * Starts a service in several threads: `PLINTH_THREADS` threads that serve requests and, if this process is a worker,
 * one thread for the background work. The main thread does everything that happens once per process: it locks and
 * migrates the database, registers the node and supervises the threads. If the start fails, nothing is left open.
 */
export const startThreadedService = async (
  config: Config,
  loaded: LoadedDefinition,
  version: string,
): Promise<Service> => loggingClose(await openAll((onClose) => start(config, loaded, version, onClose)))

async function start(
  settings: Config,
  { definition: declared, file }: LoadedDefinition,
  version: string,
  onClose: OnClose,
) {
  const config = await withPort(settings)
  // Every thread reads the plans of the versions. An error in them must be reported before any file is created.
  versionLifecycles(declared, config.versions.plans)
  const roles = rolesOf(config)
  const logs = openServiceLogs(config, { out: process.stdout, env: process.env, now: wall })
  for (const closer of [logs.flush, logRejections(logs.log)]) onClose(closer)
  const { log } = logs
  const memory = threadMemory(roles.length + 1)
  const sharing = { shared: { memory: memory.sqlite, thread: roles.length + 1 }, divisor: roles.length + 1 }
  const { definition, ...stores } = await openData(config, declared, {
    version,
    log,
    onClose,
    ...sharing,
    onCommit: () => {},
  })
  await refusePortInUse(config)
  const clock = await nodeClock({ db: stores.db, log, wall, monotonic, onMoved: () => {} })
  onClose(clock.close)
  // Create the certificate before the threads start; otherwise, each of them would create one.
  const certificates = await serverCertificates(config, stores.dataDir, clock.now)
  if (certificates?.created) log.info({ authority: certificates.authorityFile }, 'certificate created')
  const nodeId = await addNode(config, definition, { ...stores, version, log, onClose }, clock)
  const { isTTY, columns } = process.stdout
  const terminal = { isTTY: isTTY === true, columns }
  const serving = roles.filter((role) => role === 'serve').length
  const shared = { nodeId, serving, divisor: roles.length + 1, version, terminal }
  const data = { definitionFile: file, port: config.http.port, ...shared }
  const close = await startThreads({ data, roles, memory, log, later })
  onClose(close)
  const flush = logs.flush
  return { ...stores, baseUrl: baseUrlOf(config), log, flush, authorityFile: certificates?.authorityFile ?? null }
}

/** Returns the role of each thread. */
function rolesOf({ service: { threads, roles } }: Config): ThreadRole[] {
  const serving = new Array<ThreadRole>(threadsOf(threads)).fill('serve')
  return roles.includes('worker') ? [...serving, 'background'] : serving
}
