import { once } from 'node:events'
import type { FastifyInstance } from 'fastify'
import type { Config } from './config/config.ts'
import { type ConnectionLimits, connectionLimits } from './http/server/connections.ts'
import { drainable } from './http/server/draining.ts'
import type { LingerOptions } from './http/server/lingering-close.ts'
import { type RedirectOptions, redirectServer } from './http/server/redirect-server.ts'

export interface ListenersOptions extends LingerOptions, Pick<RedirectOptions, 'baseUrl' | 'onPlaintext'> {
  config: Config
  app: FastifyInstance
  /** Aborted when the service begins to stop. */
  stopping: AbortController
  onRefused: ConnectionLimits['onRefused']
}

/** The listeners of the service. */
export interface Listeners {
  open: () => Promise<void>
  /**
   * Stops in stages: for the configured time it still accepts requests, closing the connection after each response; then it
   * stops listening and closes idle connections; 22 seconds after the call it closes the rest.
   */
  close: () => Promise<void>
}

const cutMs = 22_000

/** The HTTPS listener, or the plain one behind a proxy, plus the redirecting one if configured. */
export function listenersOf({ config, app, stopping, later, onRefused, ...redirecting }: ListenersOptions): Listeners {
  const { host, port, httpPort, drainSeconds, maxConnections, maxConnectionsPerAddress, trustedProxies } = config.http
  const redirects = httpPort !== 0 && config.http.tls === 'on'
  const redirect = redirectServer({ ...redirecting, later, onHealth: app.routing })
  const servers = redirects ? [app.server, redirect] : [app.server]
  const drains = servers.map((server) => drainable(server, { later }))
  const bound = connectionLimits({
    ...{ maxConnections, maxPerAddress: maxConnectionsPerAddress },
    ...{ trustedProxies, onRefused, later },
  })
  for (const server of servers) bound(server)
  let isOpen = false
  const drain = async () => {
    for (const { begin } of drains) begin()
    await new Promise<void>((resolve) => later(drainSeconds * 1_000, resolve))
    await Promise.all(drains.map(({ finish }) => finish()))
  }
  return {
    open: async () => {
      await app.listen({ host, port }).catch(refuseListening({ host, port, setting: 'PLINTH_PORT' }))
      if (redirects) {
        const refuse = refuseListening({ host, port: httpPort, setting: 'PLINTH_HTTP_PORT' })
        await once(redirect.listen(httpPort, host), 'listening').catch(refuse)
      }
      isOpen = true
    },
    close: async () => {
      stopping.abort()
      const keepRest = later(cutMs, () => {
        for (const { cut } of drains) cut()
      })
      if (isOpen) await drain()
      await Promise.all([app.close(), new Promise((resolve) => redirect.close(resolve))])
      keepRest()
    },
  }
}

/** The address of a listener, and the setting of its port. */
interface Place {
  host: string
  port: number
  setting: 'PLINTH_PORT' | 'PLINTH_HTTP_PORT'
}

const otherHost = 'set PLINTH_HOST to another'
const explanations: Record<string, (place: Place) => string> = {
  EADDRINUSE: ({ setting }) => `another program listens there. Stop it, or set ${setting} to another port`,
  EACCES: ({ setting }) => `this user may not. Set ${setting} to a port from 1024 on`,
  EADDRNOTAVAIL: () => `this machine has no such address; ${otherHost}`,
  ENOTFOUND: () => `no such host is known; ${otherHost}`,
}

/** Throws an error that says why a listener did not open and how to fix it; rethrows other errors. */
const refuseListening =
  (place: Place) =>
  (error: NodeJS.ErrnoException): never => {
    const explain = explanations[error.code ?? '']
    if (explain === undefined) throw error
    throw new Error(`Cannot listen on port ${place.port} of ${place.host}: ${explain(place)}`, { cause: error })
  }
