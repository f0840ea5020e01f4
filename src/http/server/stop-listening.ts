import { readFileSync, readlinkSync } from 'node:fs'
import { connect, Server as NetServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** A server with its listening socket: Node.js has no public API to change the size of the accept queue (listen(2)). */
type Listening = Server & { _handle?: { listen: (backlog: number) => number; fd?: number } | null }

/** A client socket: Node.js has no public API to check before the next tick whether a socket is connected. */
type Connecting = Socket & { _handle?: { getpeername: (name: object) => number } | null }

/** Runs a function while no other thread runs one. */
export type Exclusively = (run: () => Promise<void>) => Promise<void>

/** The connections of this process that fill a listener's accept queue. */
interface Fillers {
  port: number
  host: string
  /** Client ports from which connections reach this listener, one per slot; empty if they do from any port. */
  localPorts: Set<number>
}

/**
 * Maximum time to wait, including for other threads, until no connection is waiting or in its handshake. If the process
 * cannot connect to itself, or if a client never ends a handshake, the listener closes after this time.
 */
const maxWaitMs = 5_000
/** The default size of an accept queue in Node.js. */
const backlog = 511
/**
 * The size of the shortened accept queue. While as many handshakes are open as the queue has slots beyond the first, the
 * kernel answers with SYN cookies (RFC 4987, section 3.6), and handshakes with SYN cookies are in no table.
 */
const slots = 4
/** Interval for checking whether handshakes have ended. Clients repeat a packet that was ignored after 200 ms. */
const handshakeCheckMs = 50
/** Iterations of the event loop before the next attempt to find a port from which connections reach this listener. */
const pollsPerProbe = 8

/**
 * Resolves right after the event loop has polled for I/O; by then, data that had arrived on open connections has been
 * read.
 */
export const polled = () => new Promise<void>((resolve) => setImmediate(resolve))

/**
 * Stops listening while no connection is waiting to be accepted or in its handshake, because closing a listener resets
 * these connections. For this, shortens the accept queue, and fills it with connections of its own.
 *
 * `exclusively` is null if no other thread listens on the port. Otherwise, the threads stop one after another, because
 * the kernel distributes the connections again when one of the listeners closes.
 */
export async function stopListening(server: Listening, exclusively: Exclusively | null): Promise<void> {
  // A server that is not listening gets its connections from another process.
  const address = server.listening ? server.address() : null
  if (address === null || typeof address === 'string') return
  const deadlineMs = performance.now() + maxWaitMs
  const fillers = { port: address.port, host: address.address, localPorts: new Set<number>() }
  const stop = async () => {
    do {
      if (exclusively) await findPorts(server, fillers, deadlineMs)
    } while (!(await closeIfUnused(server, fillers, deadlineMs)))
  }
  await (exclusively ? exclusively(stop) : stop())
}

/**
 * Adds client ports from which connections reach this listener until there is one per slot, or until the deadline. If
 * several threads listen on the same port, the kernel picks the listener from a connection's addresses and ports.
 */
async function findPorts(server: Server, { localPorts, ...to }: Fillers, deadlineMs: number): Promise<void> {
  const accepted = new Set<number | undefined>()
  const onConnection = ({ remotePort }: Socket) => void accepted.add(remotePort)
  server.prependListener('connection', onConnection)
  const probes: Socket[] = []
  for (let polls = 0; localPorts.size < slots && performance.now() < deadlineMs; polls++) {
    // The event loop accepts one connection per iteration, so the accept queue does not grow.
    if (polls % pollsPerProbe === 0) probes.push(connect(to).on('error', () => {}))
    await polled()
    for (const { connecting, localPort } of probes) {
      if (localPort !== undefined && !connecting && accepted.has(localPort)) localPorts.add(localPort)
    }
  }
  server.removeListener('connection', onConnection)
  // A reset leaves no connection in TIME_WAIT, so the port can be used again.
  for (const probe of probes) probe.connecting ? probe.destroy() : probe.resetAndDestroy()
}

/**
 * Accepts waiting connections. Then closes the listener if no further connection is waiting or in its handshake, and
 * returns whether it was closed. The kernel ignores new connections while connections of this process fill the accept
 * queue, so the listener closes in the same tick. Otherwise, the accept queue gets its usual size again.
 */
async function closeIfUnused(server: Listening, fillers: Fillers, deadlineMs: number): Promise<boolean> {
  // The event loop accepts one connection per iteration.
  for (let polls = 0; polls < 2 * slots; polls++) await polled()
  server._handle?.listen(slots - 1)
  const own = await connectAll(fillers)
  const isFull = own.every(({ _handle }) => _handle?.getpeername({}) === 0)
  const isUnused = isFull && !isInUse(readConnections(), fillers.port, inodeOf(server))
  const isClosed = isUnused || performance.now() > deadlineMs
  if (isClosed) NetServer.prototype.close.call(server)
  else server._handle?.listen(backlog)
  for (const connection of own) connection.destroy()
  // A client whose last packet of the handshake met the full queue considers its connection open, and repeats the packet.
  while (isFull && !isClosed && hasHandshakes(readConnections(), fillers.port) && performance.now() < deadlineMs) {
    await sleep(handshakeCheckMs)
  }
  return isClosed
}

/**
 * Begins to connect from each client port. Removes ports that another process has taken in the meantime. Node.js connects
 * in the next tick; on a loopback address, the kernel completes the connection before the system call returns.
 */
async function connectAll({ localPorts, ...to }: Fillers): Promise<Connecting[]> {
  const ports = [...localPorts]
  const begin = (_: unknown, at: number): Connecting => connect({ ...to, localPort: ports[at] }).on('error', () => {})
  const connections = Array.from({ length: slots }, begin)
  await new Promise<void>((resolve) => process.nextTick(resolve))
  for (const [at, port] of ports.entries()) if (!connections[at]?._handle) localPorts.delete(port)
  return connections
}

/**
 * Returns whether more connections wait in a listener's accept queue than those of this process, or a connection to its
 * port is in its handshake. `table` is in the format of proc_net_tcp(5), where 0A is the state LISTEN.
 */
export function isInUse(table: string, port: number, inode: string | undefined): boolean {
  const listening = new RegExp(`:${hex(port)} [0-9A-F]+:0000 0A [0-9A-F]+:([0-9A-F]+)(?: +\\S+){4} +${inode} `)
  const waiting = Number.parseInt(listening.exec(table)?.[1] ?? '0', 16)
  return waiting > slots || hasHandshakes(table, port)
}

/**
 * Returns whether the handshake of a connection to a local port has begun but not ended: in the format of
 * proc_net_tcp(5), 03 is the state SYN_RECV.
 */
const hasHandshakes = (table: string, port: number): boolean =>
  new RegExp(`:${hex(port)} [0-9A-F]+:[0-9A-F]{4} 03 `).test(table)

const hex = (port: number): string => port.toString(16).toUpperCase().padStart(4, '0')

/** Returns the IPv4 and IPv6 connections of this machine; nothing on systems other than Linux. */
const readConnections = (): string =>
  ['tcp', 'tcp6'].map((name) => ifExists(() => readFileSync(`/proc/self/net/${name}`, 'latin1')) ?? '').join('')

/** Returns the inode of a listening socket, which identifies it among those of other threads on the same port. */
const inodeOf = ({ _handle }: Listening): string | undefined =>
  ifExists(() => readlinkSync(`/proc/self/fd/${_handle?.fd}`))?.match(/\d+/)?.[0]

function ifExists<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    // Another system, or no access to the file: the listener closes without this check.
  }
}
