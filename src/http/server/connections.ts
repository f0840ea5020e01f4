import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { networkOf } from '../headers/client-address.ts'
import { proxyList, trustedPeers } from '../policies/https.ts'

/** Connections that were refused since the last report. */
export interface Refusals {
  /** How many. */
  refused: number
  /** The network of the last one, as limits count it. */
  network: string
  /** Whose bound the last one would have passed. */
  bound: 'process' | 'address'
}

export interface ConnectionLimits {
  maxConnections: number
  /** Of one IPv4 address, or one /64 of IPv6. */
  maxPerAddress: number
  /** CIDRs of peers that only `maxConnections` bounds: everybody's requests come from them. */
  trustedProxies: readonly string[]
  /** Receives what was refused: at once, then at most every ten seconds. */
  onRefused: (refusals: Refusals) => void
  /** Runs something after so many ms; returns how to call it off. */
  later: (ms: number, run: () => void) => () => void
}

const reportEveryMs = 10_000

/**
 * Bounds the connections that are open at a time, on all servers together. Returns the function that applies the bounds
 * to a server: it resets what is too much before a TLS handshake or anything else is done for it.
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
    // Node.js begins the handshake in a listener of its own, which must not see what is refused.
    const listeners = server.listeners('connection')
    server.removeAllListeners('connection').on('connection', (socket) => {
      if (admit(socket)) for (const listener of listeners) listener.call(server, socket)
      else socket.resetAndDestroy()
    })
  }
}

/** Counts refusals and reports them, so that a flood of connections is no flood of log lines. */
function reporting({ onRefused, later }: Pick<ConnectionLimits, 'onRefused' | 'later'>) {
  let waiting: Refusals | null = null
  let quiet = false
  const flush = () => {
    quiet = waiting !== null
    if (waiting === null) return
    onRefused(waiting)
    waiting = null
    later(reportEveryMs, flush)
  }
  return (last: Pick<Refusals, 'network' | 'bound'>): void => {
    waiting = { ...last, refused: (waiting?.refused ?? 0) + 1 }
    if (!quiet) flush()
  }
}
