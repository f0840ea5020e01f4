import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { type LingerOptions, linger } from './linger.ts'

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

const lookEveryMs = 50
/** How long a connection without a request under way may take, once nothing listens, for its first byte and for a head. */
const firstByteMs = 1_000
const headMs = 10_000
const longestQuietMs = 5_000
/** A turn of the event loop with nothing to do takes a tenth of this. */
const quietTurnMs = 0.2

/** Makes a server that does not listen yet one that can stop in stages. */
export function drainable(server: Server, options: LingerOptions): Drain {
  const { all, speaking, accepted } = connectionsOf(server)
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
      await quiet(accepted)
      NetServer.prototype.close.call(server)
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
 * Resolves right after the event loop has polled and found nothing to do, or after five seconds: a connection that the
 * system has accepted and the process has not, which takes one in a turn, is reset when the listener closes.
 */
async function quiet(accepted: () => number): Promise<void> {
  const endMs = performance.now() + longestQuietMs
  for (;;) {
    const [fromMs, before] = [performance.now(), accepted()]
    await polled()
    const nowMs = performance.now()
    if (nowMs > endMs || (accepted() === before && nowMs - fromMs < quietTurnMs)) return
  }
}

const connected = (server: Server) => (server instanceof TlsServer ? 'secureConnection' : 'connection')

/** The open connections of a server, of these the ones that speak HTTP (with TLS, after its handshake), and how many there were. */
function connectionsOf(server: Server) {
  const all = new Set<Socket>()
  const speaking = new Set<Answering>()
  const keep = (set: Set<Socket>) => (socket: Socket) => {
    set.add(socket)
    socket.once('close', () => set.delete(socket))
  }
  let count = 0
  server.on('connection', () => count++)
  server.on('connection', keep(all)).on(connected(server), keep(speaking))
  return { all, speaking, accepted: () => count }
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
