import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { networkOf } from '../headers/client-address.ts'
import { proxyList, trustedPeers } from '../policies/https.ts'

/** Connections refused since the last report. */
export interface Refusals {
  /** Number of refused connections. */
  refused: number
  /** Network of the most recently refused connection: an IPv4 address or an IPv6 /64. */
  network: string
  /** The limit that the most recently refused connection would have exceeded. */
  bound: 'process' | 'address'
}

export interface ConnectionLimits {
  maxConnections: number
  /** The limit per IPv4 address, or per IPv6 /64. */
  maxPerAddress: number
  /** CIDRs of trusted proxies, which forward the requests of all clients; only `maxConnections` applies to them. */
  trustedProxies: readonly string[]
  /** Called on the first refusal, then at most every ten seconds. */
  onRefused: (refusals: Refusals) => void
  /** Runs a callback after `ms`; returns a function that cancels it. */
  later: (ms: number, run: () => void) => () => void
}

const reportEveryMs = 10_000

/**
 * Limits the number of open connections across all servers. Returns a function that applies the limits to a server: excess
 * connections are reset before the TLS handshake or any other work.
 */
export function connectionLimits(limits: ConnectionLimits): (server: Server) => void {
  const { maxConnections, maxPerAddress, trustedProxies } = limits
  const isTrusted = trustedPeers(proxyList(trustedProxies))
  const report = reporting(limits)
  const perNetwork = new Map<string, number>()
  let open = 0
  const admit = (socket: Socket): boolean => {
    const network = networkOf(socket.remoteAddress ?? '')
    const ofNetwork = perNetwork.get(network) ?? 0
    const isBounded = ofNetwork >= maxPerAddress && !isTrusted(socket)
    if (open >= maxConnections || isBounded) {
      report({ network, bound: isBounded ? 'address' : 'process' })
      return false
    }
    open++
    perNetwork.set(network, ofNetwork + 1)
    socket.once('close', () => {
      open--
      const left = (perNetwork.get(network) ?? 1) - 1
      if (left === 0) perNetwork.delete(network)
      else perNetwork.set(network, left)
    })
    return true
  }
  return (server) => {
    // Node.js starts the TLS handshake in its own listener, which must not see refused connections.
    const listeners = server.listeners('connection')
    server.removeAllListeners('connection').on('connection', (socket) => {
      if (admit(socket)) for (const listener of listeners) listener.call(server, socket)
      else socket.resetAndDestroy()
    })
  }
}

/** Counts refused connections and reports them at intervals, so that a flood of connections does not flood the log. */
function reporting({ onRefused, later }: Pick<ConnectionLimits, 'onRefused' | 'later'>) {
  let pending: Refusals | null = null
  let isThrottled = false
  const flush = () => {
    isThrottled = pending !== null
    if (pending === null) return
    onRefused(pending)
    pending = null
    later(reportEveryMs, flush)
  }
  return (last: Pick<Refusals, 'network' | 'bound'>): void => {
    pending = { ...last, refused: (pending?.refused ?? 0) + 1 }
    if (!isThrottled) flush()
  }
}
