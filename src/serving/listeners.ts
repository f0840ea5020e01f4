import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import type { FastifyInstance } from 'fastify'
import type { Config } from '../config/config.ts'
import { type ConnectionLimits, connectionLimits } from '../http/server/connections.ts'
import { type Drain, drainable } from '../http/server/draining.ts'
import type { LingerOptions } from '../http/server/lingering-close.ts'
import { type RedirectOptions, redirectServer } from '../http/server/redirect-server.ts'
import { serverTimeouts } from '../http/server/server-options.ts'
import type { Log } from '../logging/entries.ts'
import { metricsServer } from '../metrics/listener.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { ThreadContext } from '../threads/context.ts'
import { stopsInTurn } from '../threads/memory.ts'
import { shareTicketKey, type TicketOptions } from '../tls/session-tickets.ts'

/** Makes a server handle connections that another process accepts. */
export type Connections = (server: FastifyInstance['server']) => void

export interface ListenersOptions
  extends LingerOptions,
    Pick<RedirectOptions, 'baseUrl' | 'onPlaintext'>,
    Omit<TicketOptions, 'onError'> {
  config: Config
  /** The current thread if several threads of the process listen on the same ports; otherwise null. */
  thread: Pick<ThreadContext, 'number' | 'memory'> | null
  app: FastifyInstance
  /** Supplies the connections that another process accepts; null if this process listens itself. */
  connections: Connections | null
  /** Aborted when the service begins to stop. */
  stopping: AbortController
  onRefused: ConnectionLimits['onRefused']
  metrics: Pick<Metrics, 'read'>
  log: Pick<Log, 'warn'>
  /** Called for each error in background work; `what` names the work. */
  onError: (error: unknown, what: string) => void
}

export interface Listeners {
  open: () => Promise<void>
  /**
   * Stops in stages. For `drainSeconds`, still accepts requests, but closes each connection after its response. Then
   * stops listening and closes idle connections. Closes all remaining connections 22 seconds after the call.
   */
  close: () => Promise<void>
}

const cutMs = 22_000

/**
 * Returns the listeners: HTTPS, or plain HTTP behind a proxy; if configured, the listener that redirects to HTTPS, and
 * the listener for metrics, which closes last.
 */
export function listenersOf(options: ListenersOptions): Listeners {
  const { config, app, connections, stopping, later, onRefused, thread, ...redirecting } = options
  const { host, port, httpPort, drainSeconds, maxConnections, maxConnectionsPerAddress, trustedProxies } = config.http
  const redirects = httpPort !== 0 && config.http.tls === 'on'
  const redirect = redirectServer({ ...redirecting, later, onHealth: app.routing })
  const monitor = thread === null || thread.number === 1 ? monitorOf(options) : null
  const address = { host, port, reusePort: thread !== null }
  const servers = redirects ? [app.server, redirect] : [app.server]
  const exclusively = thread && stopsInTurn(thread.memory, thread.number)
  const drains = servers.map((server) => drainable(server, { later, exclusively }))
  const limitConnections = connectionLimits({
    ...{ maxConnections, maxPerAddress: maxConnectionsPerAddress },
    ...{ trustedProxies, onRefused, later },
  })
  for (const server of servers) limitConnections(server)
  let isOpen = false
  let stopTickets = async () => {}
  const drain = async () => {
    for (const { begin } of drains) begin()
    await new Promise<void>((resolve) => later(drainSeconds * 1_000, resolve))
    await Promise.all(drains.map(({ finish }) => finish()))
  }
  return {
    open: async () => {
      stopTickets = await shareTickets(options)
      if (config.http.http2 && app.server instanceof TlsServer) drains.push(await openHttp2(app.server, options))
      if (connections) await app.ready().then(() => connections(app.server))
      else await app.listen(address).catch(refuseListening({ host, port, setting: 'PLINTH_PORT' }))
      if (redirects) {
        const refuse = refuseListening({ host, port: httpPort, setting: 'PLINTH_HTTP_PORT' })
        await once(redirect.listen({ ...address, port: httpPort }), 'listening').catch(refuse)
      }
      await monitor?.open()
      isOpen = true
    },
    close: async () => {
      stopping.abort()
      await stopTickets()
      const cancelCut = later(cutMs, () => {
        for (const { cut } of drains) cut()
      })
      if (isOpen) await drain()
      await Promise.all([app.close(), new Promise((resolve) => redirect.close(resolve))])
      await monitor?.close()
      cancelCut()
    },
  }
}

/** Returns the configured timeouts of connections and requests, in ms. */
export const configuredTimeouts = ({ http: { keepAliveSeconds, requestSeconds } }: Pick<Config, 'http'>) => ({
  keepAliveTimeout: keepAliveSeconds * 1_000,
  requestTimeout: requestSeconds * 1_000,
})

/** Serves HTTP/2 on the HTTPS listener. Loads the implementation on demand. */
async function openHttp2(server: TlsServer, { config, app, ...options }: ListenersOptions): Promise<Drain> {
  const { serveHttp2 } = await import('../http/server/http2.ts')
  const timeouts = serverTimeouts(configuredTimeouts(config))
  return serveHttp2(server, { ...options, handle: app.routing, timeouts })
}

/** Lets clients resume TLS sessions on any node; returns a function that stops reloading the shared key. */
async function shareTickets({ app: { server }, ...options }: ListenersOptions): Promise<() => Promise<void>> {
  if (!(server instanceof TlsServer)) return async () => {}
  const onError = (error: unknown) => options.onError(error, 'TLS session tickets')
  return (await shareTicketKey(server, { ...options, onError })).stop
}

/** Returns the listener for metrics; if no port is configured, `open` does nothing. */
function monitorOf({ config, app, metrics, log }: ListenersOptions) {
  const { host, port } = config.metrics
  const onError = (err: unknown) => log.warn({ err }, 'metrics not read')
  const server = metricsServer({ read: metrics.read, onHealth: app.routing, onError })
  return {
    open: async () => {
      if (port === null) return
      const refuse = refuseListening({ host, port, setting: 'PLINTH_METRICS_PORT' })
      await once(server.listen(port, host), 'listening').catch(refuse)
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** A listener's address, and the name of the setting for its port. */
interface ListenAddress {
  host: string
  port: number
  setting: 'PLINTH_PORT' | 'PLINTH_HTTP_PORT' | 'PLINTH_METRICS_PORT'
}

const otherHost = ({ setting }: ListenAddress) =>
  `change ${setting === 'PLINTH_METRICS_PORT' ? 'PLINTH_METRICS_HOST' : 'PLINTH_HOST'}`
const explanations: Record<string, (address: ListenAddress) => string> = {
  EADDRINUSE: ({ setting }) => `another program is using it. Stop that program, or set ${setting} to another port`,
  EACCES: ({ setting }) => `permission denied. Set ${setting} to 1024 or higher`,
  EADDRNOTAVAIL: (address) => `this machine does not have that address; ${otherHost(address)}`,
  ENOTFOUND: (address) => `the host name does not resolve; ${otherHost(address)}`,
}

/**
 * Returns a handler for errors of `listen`. It throws an error that explains the cause and how to fix it, or rethrows
 * an error that it cannot explain.
 */
export const refuseListening =
  (address: ListenAddress) =>
  (error: NodeJS.ErrnoException): never => {
    const explain = explanations[error.code ?? '']
    if (explain === undefined) throw error
    throw new Error(`Cannot listen on ${address.host} port ${address.port}: ${explain(address)}`, { cause: error })
  }

/**
 * Throws an error if the service cannot listen on a port that its threads share, for example because another process
 * uses it. The threads themselves might not notice, because listening on a shared port can succeed.
 */
export async function refusePortInUse({ http: { host, port, httpPort, tls } }: Config): Promise<void> {
  const addresses: ListenAddress[] = [{ host, port, setting: 'PLINTH_PORT' }]
  if (httpPort !== 0 && tls === 'on') addresses.push({ host, port: httpPort, setting: 'PLINTH_HTTP_PORT' })
  for (const address of addresses) {
    const server = createServer().listen(address.port, address.host)
    await once(server, 'listening').catch(refuseListening(address))
    server.close()
    await once(server, 'close')
  }
}

/** Returns a free port. Tokens and links contain the port, so it must be known before listening. */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  const server = createServer().listen(0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** Returns the configuration; port 0 is replaced by a port that the operating system chose. */
export async function withPort(config: Config): Promise<Config> {
  const { http } = config
  return http.port === 0 ? { ...config, http: { ...http, port: await freePort(http.host) } } : config
}
