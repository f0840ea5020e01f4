import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { type AddressInfo, connect, Server as NetServer, type Socket } from 'node:net'
import { type TLSSocket, Server as TlsServer } from 'node:tls'
import { type LingerOptions, linger } from './lingering-close.ts'

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

/** A server with its listening socket: Node.js has no public API to shorten the accept queue (listen(2)). */
type Listening = Server & { _handle?: { listen: (backlog: number) => number } | null }

/** A client socket: Node.js has no public API to check before the next tick whether a socket is connected. */
type Connecting = Socket & { _handle?: { getpeername: (name: object) => number } | null }

const checkIntervalMs = 50
/**
 * Timeouts that apply once the server stops listening: for the first byte on an idle connection, and for a request head.
 */
const firstByteMs = 1_000
const headMs = 10_000
/**
 * Maximum time to wait for the accept queue to empty. If the process cannot connect to itself, the listener closes after
 * this time.
 */
const maxWaitMs = 2_000

/** Prepares a server, before it listens, to stop in stages. */
export function drainable(server: Server, options: LingerOptions): Drain {
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
      await stopListening(server)
      await check(0)
    },
    cut: () => {
      cancel()
      for (const socket of all) socket.destroy()
    },
  }
}

/**
 * Resolves right after the event loop has polled for I/O; by then, data that had arrived on open connections has been
 * read.
 */
const polled = () => new Promise<void>((resolve) => setImmediate(resolve))

/**
 * Stops listening once no connection is waiting to be accepted, because closing a listener resets waiting connections.
 * Shortens the accept queue to one slot and fills that slot with a connection of its own, so that the kernel ignores
 * new connections until the listener is closed in the same tick.
 */
async function stopListening(server: Listening): Promise<void> {
  // A server that does not listen gets its connections from another process.
  if (!server.listening) return
  server._handle?.listen(0)
  const address = server.address() as AddressInfo | null
  const beganMs = performance.now()
  for (let isClosed = false; !isClosed; ) {
    await polled()
    const own: Connecting = connect(address?.port ?? 0, address?.address).on('error', () => {})
    // Node.js connects in the next tick. On a loopback address, the kernel completes the connection before the system call
    // returns.
    await new Promise<void>((resolve) => process.nextTick(resolve))
    isClosed = own._handle?.getpeername({}) === 0 || performance.now() - beganMs > maxWaitMs
    if (isClosed) NetServer.prototype.close.call(server)
    own.destroy()
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
