import type { FastifyInstance } from 'fastify'
import { buildApp } from '../app.ts'
import { type Audit, auditPlaintextCredential, openAudit } from '../audit/buffer.ts'
import { openAuthorization } from '../authorization.ts'
import { baseUrlOf, type Config } from '../config/config.ts'
import type { Refusals } from '../http/server/connections.ts'
import { later, type OnClose } from '../lifecycle.ts'
import type { Logs } from '../logging/logs.ts'
import { logAudit, logAuthorization } from '../logging/notices.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { openParts } from '../parts.ts'
import type { Stores } from '../stores.ts'
import type { ThreadContext } from '../threads/context.ts'
import { serverCertificates } from '../tls/certificates.ts'
import { type Connections, configuredTimeouts, listenersOf } from './listeners.ts'

/**
 * Delay after startup before the authorization server is created, unless a request needs it earlier. Loading
 * oidc-provider blocks the thread for 0.2 s, so the delay leaves time to answer the first health check.
 */
const warmUpMs = 500

type Opened = Stores & Awaited<ReturnType<typeof openParts>> & { metrics: Metrics }

interface Serving {
  logs: Logs
  onClose: OnClose
  thread: ThreadContext | null
  connections: Connections | null
}

/** Opens the authorization server, the app, and the listeners, which do not listen yet. */
export async function openServed(config: Config, opened: Opened, { logs, onClose, thread, connections }: Serving) {
  const { now, monotonic, revocations, metrics } = opened
  const { log } = logs
  const certificates = await serverCertificates(config, opened.dataDir, now)
  if (certificates?.created) log.info({ authority: certificates.authorityFile }, 'certificate created')
  const baseUrl = baseUrlOf(config)
  const audit = openAudit({ ...opened, now, onEntry: metrics.onAudit, ...logAudit(log) })
  onClose(audit.flush)
  const reserved = { ...opened, db: opened.db.reserved }
  const access = { config, definition: opened.definition, stores: reserved, baseUrl, audit, ...logAuthorization(log) }
  const threads = thread?.serving ?? 1
  const authorization = await openAuthorization({ ...access, revocations, now, monotonic, threads })
  onClose(authorization.stop)
  const stopping = new AbortController()
  const served = { ...opened, ...authorization, baseUrl, audit, stopping: stopping.signal }
  const app = await openApp(config, served, certificates, logs)
  const onRefused = (refusals: Refusals) => {
    metrics.onConnectionsRefused(refusals.refused)
    log.warn(refusals, 'connections refused')
  }
  const onPlaintext = auditPlaintextCredential(audit)
  const listeners = listenersOf({
    ...served,
    config,
    app,
    stopping,
    later,
    onRefused,
    onPlaintext,
    log,
    thread,
    connections,
  })
  const onError = (err: unknown) => log.error({ what: 'authorization server', err }, 'background work failed')
  const warmUp = () => void Promise.resolve(authorization.provider?.current).catch(onError)
  const open = async () => {
    await listeners.open()
    onClose(later(warmUpMs, warmUp))
  }
  return { baseUrl, listeners: { ...listeners, open }, authorityFile: certificates?.authorityFile ?? null }
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
    timeouts: configuredTimeouts(config),
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
