import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { type AddressInfo, connect, Server as NetServer, type Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { type LingerOptions, linger } from './lingering-close.ts'

/** A server that stops without losing a request. */
export interface Drain {
  /** From now on each answer is the last of its connection, and says so (RFC 9112 §9.6). */
  begin: () => void
  /** Stops listening; from then on each connection ends as soon as no request is under way on it. */
  finish: () => Promise<void>
  /** Cuts the connections that are left. */
  cut: () => void
}

/** A socket with the answer that Node.js is sending on it. */
type Answering = Socket & { _httpMessage?: ServerResponse | null }

/** A server with its listening socket: Node.js has no public way to shorten the accept queue (listen(2)). */
type Listening = Server & { _handle?: { listen: (backlog: number) => number } | null }

/** A client's socket: Node.js has no public way to see whether it is connected before the next turn. */
type Connecting = Socket & { _handle?: { getpeername: (name: object) => number } | null }

const lookEveryMs = 50
/** How long a connection without a request under way may take, once nothing listens, for its first byte and for a head. */
const firstByteMs = 1_000
const headMs = 10_000
/** How long to wait for an empty accept queue; where a process cannot connect to itself, the listener closes after it. */
const patienceMs = 2_000

/** Makes a server that does not listen yet one that can stop in stages. */
export function drainable(server: Server, options: LingerOptions): Drain {
  const { all, speaking } = connectionsOf(server)
  const end = endingOnce(options)
  const destroyIdle = server.closeIdleConnections.bind(server)
  let cancel = () => {}
  const look = async (sinceMs: number) => {
    await polled()
    endResting({ speaking, sinceMs, end, destroyIdle })
    if (all.size > 0) cancel = options.later(lookEveryMs, () => look(sinceMs + lookEveryMs))
  }
  return {
    begin: () => {
      for (const socket of speaking) endGently(socket, end)
      server.on(connected(server), (socket: Socket) => endGently(socket, end))
      answerLast(server)
    },
    finish: async () => {
      // When Node.js closes a server it resets idle connections, on which a request may be arriving.
      server.closeIdleConnections = () => {}
      await stopListening(server)
      await look(0)
    },
    cut: () => {
      cancel()
      for (const socket of all) socket.destroy()
    },
  }
}

/** Resolves right after the event loop has polled: what had arrived on open connections is read. */
const polled = () => new Promise<void>((resolve) => setImmediate(resolve))

/**
 * Stops listening once no connection waits to be accepted: closing a listener resets those that do. The accept queue is
 * shortened to one place, and when a connection of our own has taken it, the system makes no other: until the listener
 * is closed in the same turn, it ignores those who try to connect, and then refuses them.
 */
async function stopListening(server: Listening): Promise<void> {
  server._handle?.listen(0)
  const address = server.address() as AddressInfo | null
  const beganMs = performance.now()
  for (let isClosed = false; !isClosed; ) {
    await polled()
    const own: Connecting = connect(address?.port ?? 0, address?.address).on('error', () => {})
    // Node.js connects in the next tick, and on a loopback address the system answers before the call returns.
    await new Promise<void>((resolve) => process.nextTick(resolve))
    isClosed = own._handle?.getpeername({}) === 0 || performance.now() - beganMs > patienceMs
    if (isClosed) NetServer.prototype.close.call(server)
    own.destroy()
  }
}

const connected = (server: Server) => (server instanceof TlsServer ? 'secureConnection' : 'connection')

/** The open connections of a server, and of these the ones that speak HTTP (with TLS, after its handshake). */
function connectionsOf(server: Server) {
  const all = new Set<Socket>()
  const speaking = new Set<Answering>()
  const keep = (set: Set<Socket>) => (socket: Socket) => {
    set.add(socket)
    socket.once('close', () => set.delete(socket))
  }
  server.on('connection', keep(all)).on(connected(server), keep(speaking))
  return { all, speaking }
}

type End = (socket: Socket) => void

function endingOnce(options: LingerOptions): End {
  const ending = new WeakSet<Socket>()
  return (socket) => {
    if (ending.has(socket)) return
    ending.add(socket)
    linger(socket, options)
  }
}

/** Has a connection end in stages after its last answer, where Node.js would reset it if more had arrived. */
function endGently(socket: Socket, end: End): void {
  const destroySoon = socket.destroySoon.bind(socket)
  socket.destroySoon = () => (socket.writable ? end(socket) : destroySoon())
}

/**
 * Makes each answer whose request arrives from now on the last of its connection. A request that was sent ahead and
 * stands behind the last answer is not handled: its client knows that it was not, and sends it again.
 */
function answerLast(server: Server): void {
  const latest = new WeakMap<Socket, ServerResponse>()
  const handle = server.listeners('request')
  server.removeAllListeners('request').on('request', (request: IncomingMessage, response: ServerResponse) => {
    const before = latest.get(request.socket)
    if (before?.headersSent) return
    // The answer to the request before goes first, and does not say yet that it is the last.
    if (before) before.shouldKeepAlive = true
    response.shouldKeepAlive = false
    latest.set(request.socket, response)
    for (const listener of handle) listener.call(server, request, response)
  })
}

interface Resting {
  speaking: Set<Answering>
  /** How long nothing listens already. */
  sinceMs: number
  end: End
  /** Destroys the connections that are between two requests. */
  destroyIdle: () => void
}

/** Ends the connections on which no request is under way. */
function endResting({ speaking, sinceMs, end, destroyIdle }: Resting): void {
  for (const socket of speaking) {
    const isUnused = socket.bytesRead === 0 && sinceMs >= firstByteMs
    if (isUnused || (!socket._httpMessage && sinceMs >= headMs)) end(socket)
    // Only Node.js knows which connections are between two requests; what it does to them is put in its place.
    socket.destroy = () => {
      end(socket)
      return socket
    }
  }
  destroyIdle()
  for (const socket of speaking) Reflect.deleteProperty(socket, 'destroy')
}
