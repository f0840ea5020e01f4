import { readFileSync, readlinkSync } from 'node:fs'
import type { Server } from 'node:http'
import { type AddressInfo, connect, Server as NetServer, type Socket } from 'node:net'
import type { LingerOptions } from './lingering-close.ts'

/** A server with its listening socket: Node.js has no public API to shorten the accept queue (listen(2)). */
type Listening = Server & { _handle?: { fd?: number; listen: (backlog: number) => number } | null }

/** A client socket: Node.js has no public API to check before the next tick whether a socket is connected. */
type Connecting = Socket & { _handle?: { getpeername: (name: object) => number } | null }

export interface StopOptions extends LingerOptions {
  /** Returns a number in [0, 1). */
  random: () => number
}

/**
 * Maximum time to wait for the accept queue to empty. If the process cannot connect to itself, the listener closes after
 * this time.
 */
const maxWaitMs = 2_000
/**
 * Number of own connections per attempt. If several threads listen on the port, the kernel distributes them among their
 * accept queues.
 */
const ownConnections = 4
/** Maximum pause before the next attempt; random, so that threads that stop at the same time do not stay in step. */
const maxPauseMs = 10

/**
 * Resolves right after the event loop has polled for I/O; by then, data that had arrived on open connections has been
 * read.
 */
export const polled = () => new Promise<void>((resolve) => setImmediate(resolve))

/**
 * Stops listening once no connection is waiting to be accepted, because closing a listener resets waiting connections.
 * Shortens the accept queue to one slot and fills that slot with a connection of its own, so that the kernel ignores
 * new connections until the listener is closed in the same tick.
 */
export async function stopListening(server: Listening, { later, random }: StopOptions): Promise<void> {
  // A server that is not listening gets its connections from another process.
  const address = server.listening ? server.address() : null
  if (address === null || typeof address === 'string') return
  server._handle?.listen(0)
  const beganMs = performance.now()
  for (let isClosed = false; !isClosed; ) {
    await polled()
    const before = readAcceptQueue(server, address)
    const own = Array.from(
      { length: ownConnections },
      (): Connecting => connect(address.port, address.address).on('error', () => {}),
    )
    // Node.js connects in the next tick. On a loopback address, the kernel completes the connection before the system call
    // returns.
    await new Promise<void>((resolve) => process.nextTick(resolve))
    isClosed = isFilledBy(own, before, readAcceptQueue(server, address)) || performance.now() - beganMs > maxWaitMs
    if (isClosed) NetServer.prototype.close.call(server)
    for (const socket of own) socket.destroy()
    const pauseMs = Math.floor(random() * maxPauseMs)
    if (!isClosed && pauseMs > 0) await new Promise<void>((resolve) => later(pauseMs, resolve))
  }
}

/**
 * Returns whether the accept queue, which was empty before, holds only one of these connections. Without access to the
 * queue, this is assumed once one of them is connected, which is true unless other threads listen on the same port.
 */
function isFilledBy(own: readonly Connecting[], before: AcceptQueue | null, queue: AcceptQueue | null): boolean {
  if (before === null || queue === null) return own.some(({ _handle }) => _handle?.getpeername({}) === 0)
  // Connections that waited before are in the queues of other threads.
  const known = new Set([...before.ports, ...own.map(({ localPort }) => localPort)])
  return before.length === 0 && queue.length > 0 && queue.ports.every((port) => known.has(port))
}

/** The connections that wait to be accepted at the address of a listener. */
interface AcceptQueue {
  /** The number of connections in this listener's queue. */
  length: number
  /** The clients' ports of the connections in the queues of all listeners that share the port. */
  ports: number[]
}

const [listening, established, closeWait] = ['0A', '01', '08']

/**
 * Reads the accept queue of a listener from `/proc/net/tcp` (proc_net_tcp(5)). Returns null if the system does not provide
 * it. A connection that is not accepted yet has the inode 0.
 */
function readAcceptQueue({ _handle }: Listening, { port, family }: AddressInfo): AcceptQueue | null {
  const queue: AcceptQueue = { length: 0, ports: [] }
  try {
    const inode = /\d+/.exec(readlinkSync(`/proc/self/fd/${_handle?.fd}`))?.[0]
    const lines = readFileSync(`/proc/self/net/${family === 'IPv6' ? 'tcp6' : 'tcp'}`, 'latin1').split('\n')
    for (const line of lines) {
      const [, local = '', remote = '', state = '', sizes = '', , , , , owner] = line.trim().split(/\s+/)
      if (portIn(local) !== port) continue
      if (state === listening && owner === inode) queue.length = Number.parseInt(sizes.split(':')[1] ?? '', 16)
      else if (owner === '0' && (state === established || state === closeWait)) queue.ports.push(portIn(remote))
    }
    return queue
  } catch {
    return null
  }
}

/** Returns the port of an address such as `0100007F:1F90`. */
const portIn = (address: string): number => Number.parseInt(address.split(':')[1] ?? '', 16)
