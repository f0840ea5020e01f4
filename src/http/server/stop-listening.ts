import { readFileSync } from 'node:fs'
import { connect, Server as NetServer, type Server, type Socket, type TcpNetConnectOpts } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** A server with its listening socket: Node.js has no public API to change the size of the accept queue (listen(2)). */
type Listening = Server & { _handle?: { listen: (backlog: number) => number } | null }

/** A client socket: Node.js has no public API to check before the next tick whether a socket is connected. */
type Connecting = Socket & { _handle?: { getpeername: (name: object) => number } | null }

/** Runs a function while no other thread runs one. */
export type Exclusively = (run: () => Promise<void>) => Promise<void>

/**
 * Maximum time to wait, including for other threads, until no connection is waiting or in its handshake. If the process
 * cannot connect to itself, or if a client never ends a handshake, the listener closes after this time.
 */
const maxWaitMs = 5_000
/** How long the accept queue has a free slot for the end of a handshake, before the next attempt to close. */
const handshakeMs = 10
/** Iterations of the event loop before the next attempt to find a port from which connections reach this listener. */
const pollsPerProbe = 8

/**
 * Resolves right after the event loop has polled for I/O; by then, data that had arrived on open connections has been
 * read.
 */
export const polled = () => new Promise<void>((resolve) => setImmediate(resolve))

/**
 * Stops listening while no connection is waiting to be accepted or in its handshake, because closing a listener resets
 * these connections. For this, shortens the accept queue to one slot, and fills that slot with a connection of its own.
 *
 * `exclusively` is null if no other thread listens on the port. Otherwise, the threads stop one after another, because
 * the kernel distributes the connections again when one of the listeners closes.
 */
export async function stopListening(server: Listening, exclusively: Exclusively | null): Promise<void> {
  // A server that is not listening gets its connections from another process.
  const address = server.listening ? server.address() : null
  if (address === null || typeof address === 'string') return
  const deadlineMs = performance.now() + maxWaitMs
  const stop = async () => {
    const to = { port: address.port, host: address.address }
    const localPort = exclusively ? await portToSelf(server, to, deadlineMs) : undefined
    server._handle?.listen(0)
    while (!(await closeIfUnused(server, { ...to, localPort }, deadlineMs)));
  }
  await (exclusively ? exclusively(stop) : stop())
}

/**
 * Returns a client port from which connections reach this listener, or undefined if none is found in time. If several
 * threads listen on the same port, the kernel picks the listener from a connection's addresses and ports.
 */
async function portToSelf(server: Server, to: TcpNetConnectOpts, deadlineMs: number): Promise<number | undefined> {
  const accepted = new Set<number | undefined>()
  const onConnection = ({ remotePort }: Socket) => void accepted.add(remotePort)
  server.prependListener('connection', onConnection)
  const probes: Socket[] = []
  const find = () => probes.find((probe) => !probe.connecting && accepted.has(probe.localPort))
  for (let polls = 0; find() === undefined && performance.now() < deadlineMs; polls++) {
    // The event loop accepts one connection per iteration, so the accept queue does not grow.
    if (polls % pollsPerProbe === 0) probes.push(connect(to).on('error', () => {}))
    await polled()
  }
  const localPort = find()?.localPort
  server.removeListener('connection', onConnection)
  // A reset leaves no connection in TIME_WAIT, so the port can be used again.
  for (const probe of probes) probe.connecting ? probe.destroy() : probe.resetAndDestroy()
  return localPort
}

/**
 * Accepts a waiting connection. Then closes the listener if no further connection is waiting or in its handshake, and
 * returns whether it was closed. The kernel ignores new connections while its own connection fills the only slot of the
 * accept queue, so the listener closes in the same tick.
 */
async function closeIfUnused(server: Listening, to: TcpNetConnectOpts & { port: number }, deadlineMs: number) {
  await polled()
  const own: Connecting = connect(to).on('error', () => {})
  // Node.js connects in the next tick. On a loopback address, the kernel completes the connection before the system call
  // returns.
  await new Promise<void>((resolve) => process.nextTick(resolve))
  const isEmpty = own._handle?.getpeername({}) === 0
  const isUnused = isEmpty && !hasHandshakes(readConnections(), to.port)
  const isClosed = isUnused || performance.now() > deadlineMs
  if (isClosed) NetServer.prototype.close.call(server)
  own.destroy()
  if (isEmpty && !isClosed) await sleep(handshakeMs)
  return isClosed
}

/**
 * Returns whether the handshake of a connection to a local port has begun but not ended. While the accept queue is full,
 * a client may already consider such a connection open. `table` is in the format of proc_net_tcp(5), where 03 is the
 * state SYN_RECV.
 */
export function hasHandshakes(table: string, port: number): boolean {
  const hex = port.toString(16).toUpperCase().padStart(4, '0')
  return new RegExp(`:${hex} [0-9A-F]+:[0-9A-F]{4} 03 `).test(table)
}

/** Returns the IPv4 and IPv6 connections of this machine; nothing on systems other than Linux. */
const readConnections = (): string => ['tcp', 'tcp6'].map((name) => readIfExists(`/proc/self/net/${name}`)).join('')

function readIfExists(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    // Another system, or no access to the table: the listener closes without this check.
    return ''
  }
}
