import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type TLSSocket, Server as TlsServer } from 'node:tls'
import { type LingerOptions, linger } from './lingering-close.ts'
import { type Exclusively, polled, stopListening } from './stop-listening.ts'

/** The stages in which a server stops. */
export interface Drain {
  /**
   * Makes clients use new connections: from now on, each response announces `Connection: close` and ends its connection
   * (RFC 9112 §9.6). Over HTTP/2, sends GOAWAY instead.
   */
  begin: () => void
  /** Stops listening. Then closes each connection once it has no request in flight. */
  finish: () => Promise<void>
  /** Destroys the remaining connections. */
  cut: () => void
}

/** A socket and the response that Node.js is currently sending on it. */
type RespondingSocket = Socket & { _httpMessage?: ServerResponse | null }

const checkIntervalMs = 50
/**
 * Timeouts that apply once the server stops listening: for the first byte on an idle connection, and for a request head.
 */
const firstByteMs = 1_000
const headMs = 10_000

export interface DrainOptions extends LingerOptions {
  /** Null if no other thread listens on the port. */
  exclusively: Exclusively | null
}

/** Prepares a server, before it listens, to stop in stages. */
export function drainable(server: Server, options: DrainOptions): Drain {
  const { all, speaking } = connectionsOf(server)
  const end = endingOnce(options)
  const destroyIdle = server.closeIdleConnections.bind(server)
  let cancel = () => {}
  const check = async (sinceMs: number) => {
    await polled()
    endIdle({ speaking, sinceMs, end, destroyIdle })
    if (all.size > 0) cancel = options.later(checkIntervalMs, () => check(sinceMs + checkIntervalMs))
  }
  return {
    begin: () => {
      for (const socket of speaking) endGently(socket, end)
      server.on(connected(server), (socket: Socket) => {
        if (!isHttp2(socket)) endGently(socket, end)
      })
      closeAfterResponse(server)
    },
    finish: async () => {
      // When a server closes, Node.js resets idle connections, even if a request is arriving on one.
      server.closeIdleConnections = () => {}
      await stopListening(server, options.exclusively)
      await check(0)
    },
    cut: () => {
      cancel()
      for (const socket of all) socket.destroy()
    },
  }
}

const connected = (server: Server) => (server instanceof TlsServer ? 'secureConnection' : 'connection')

/** Returns whether a connection has negotiated HTTP/2 (RFC 7301); `serveHttp2` drains such connections. */
export const isHttp2 = (socket: Socket): boolean => (socket as Partial<TLSSocket>).alpnProtocol === 'h2'

/**
 * Tracks all open connections of a server and, separately, the connections that are ready for HTTP/1.1 (with TLS, after
 * the handshake).
 */
function connectionsOf(server: Server) {
  const all = new Set<Socket>()
  const speaking = new Set<RespondingSocket>()
  const track = (set: Set<Socket>) => (socket: Socket) => {
    set.add(socket)
    socket.once('close', () => set.delete(socket))
  }
  const trackSpeaking = track(speaking)
  server.on('connection', track(all)).on(connected(server), (socket: Socket) => {
    if (!isHttp2(socket)) trackSpeaking(socket)
  })
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

/**
 * Makes a connection close in stages after its last response. If more data had arrived, Node.js would reset the
 * connection.
 */
function endGently(socket: Socket, end: End): void {
  const destroySoon = socket.destroySoon.bind(socket)
  socket.destroySoon = () => (socket.writable ? end(socket) : destroySoon())
}

/**
 * Makes the server close each connection after its response to the latest request. Requests that arrive after the
 * headers of this response were sent are not handled; `Connection: close` tells the client to send them again.
 */
function closeAfterResponse(server: Server): void {
  const latest = new WeakMap<Socket, ServerResponse>()
  const handle = server.listeners('request')
  server.removeAllListeners('request').on('request', (request: IncomingMessage, response: ServerResponse) => {
    const before = latest.get(request.socket)
    if (before?.headersSent) return
    // The previous response is sent first on this connection, so it must not announce the close.
    if (before) before.shouldKeepAlive = true
    response.shouldKeepAlive = false
    latest.set(request.socket, response)
    for (const listener of handle) listener.call(server, request, response)
  })
}

interface IdleCheck {
  speaking: Set<RespondingSocket>
  /** Milliseconds since the server stopped listening. */
  sinceMs: number
  end: End
  /** Destroys the connections that are idle between two requests. */
  destroyIdle: () => void
}

/** Closes the connections that have no request in flight. */
function endIdle({ speaking, sinceMs, end, destroyIdle }: IdleCheck): void {
  for (const socket of speaking) {
    const isUnused = socket.bytesRead === 0 && sinceMs >= firstByteMs
    if (isUnused || (!socket._httpMessage && sinceMs >= headMs)) end(socket)
    // Only Node.js knows which connections are between two requests, so its calls to `destroy` on them are intercepted.
    socket.destroy = () => {
      end(socket)
      return socket
    }
  }
  destroyIdle()
  for (const socket of speaking) Reflect.deleteProperty(socket, 'destroy')
}
