import { EventEmitter, once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** From the client to the server, or from the server to the client. */
type Direction = 'request' | 'reply'

/** What the proxy does with connections and bytes. */
export type Fault =
  | { kind: 'pass' }
  /** Resets every connection, including new ones. */
  | { kind: 'refuse' }
  /** Accepts connections, keeps the open ones and forwards nothing, like a network that loses every packet. */
  | { kind: 'silent' }
  /** Delays each chunk, or limits the bytes per second of each direction of a connection. */
  | { kind: 'slow'; delayMs?: number; bytesPerSecond?: number }
  /** Resets each connection after forwarding this many bytes in this direction. */
  | { kind: 'cut'; of: Direction; bytes: number }

export interface FaultProxy {
  port: number
  /** Applies a fault to open and new connections until another one is set. */
  set: (fault: Fault) => void
  /** Resets every open connection. */
  reset: () => void
  /** Forwards new connections to another port. */
  pointTo: (port: number) => void
  /**
   * Drops the next chunk from the server that contains `reply`, on a connection whose client has sent `after`. Then
   * resets the connection or, with `isSilent`, leaves it open. Resolves once the chunk is dropped.
   */
  dropReply: (options: { after: string; reply: string; isSilent?: boolean }) => Promise<void>
  close: () => Promise<void>
}

interface Drop {
  after: string
  reply: string
  isSilent?: boolean
  done: () => void
}

interface State {
  fault: Fault
  target: number
  drop: Drop | undefined
  /** Emits `change` whenever the fault is set. */
  changes: EventEmitter
}

/** A client's connection, and the proxy's connection to the server. */
interface Link {
  client: Socket
  server: Socket
  /** True once the client has sent the `after` text of `dropReply`. */
  isMarked: boolean
  /** The number of bytes forwarded in the direction of a `cut` fault since it was set. */
  bytes: number
  isMuted: boolean
}

/** Starts a TCP proxy on 127.0.0.1 in front of the server on port `target`. */
export async function faultProxy(target: number): Promise<FaultProxy> {
  const state: State = { fault: { kind: 'pass' }, target, drop: undefined, changes: new EventEmitter() }
  state.changes.setMaxListeners(0)
  const links = new Set<Link>()
  const sockets = new Set<Socket>()
  const reset = () => {
    for (const socket of sockets) abort(socket)
  }
  const listener = createServer({ noDelay: true }, (client) => {
    track(sockets, client)
    if (state.fault.kind === 'refuse') return abort(client)
    void accept(state, links, sockets, client)
  })
  await once(listener.listen(0, '127.0.0.1'), 'listening')
  return {
    port: (listener.address() as AddressInfo).port,
    set: (fault) => {
      state.fault = fault
      for (const link of links) link.bytes = 0
      if (fault.kind === 'refuse') reset()
      state.changes.emit('change')
    },
    reset,
    pointTo: (port) => {
      state.target = port
    },
    dropReply: (drop) => {
      const { promise, resolve } = Promise.withResolvers<void>()
      state.drop = { ...drop, done: resolve }
      return promise
    },
    close: async () => {
      listener.close()
      state.fault = { kind: 'refuse' }
      for (const socket of sockets) socket.destroy()
      state.changes.emit('change')
      await once(listener, 'close')
    },
  }
}

/**
 * Resets a connection. Closes it instead while it is still connecting or already ending, because it cannot be reset
 * then.
 */
function abort(socket: Socket): void {
  if (socket.connecting || socket.writableEnded) socket.destroy()
  else socket.resetAndDestroy()
}

function track(sockets: Set<Socket>, socket: Socket): void {
  sockets.add(socket)
  // Ignored, because an error also ends the loop in `forward`.
  socket.on('error', () => {})
  socket.on('close', () => sockets.delete(socket))
}

async function accept(state: State, links: Set<Link>, sockets: Set<Socket>, client: Socket): Promise<void> {
  await untilHeard(state)
  if (client.destroyed) return
  const server = connect({ port: state.target, host: '127.0.0.1', noDelay: true })
  track(sockets, server)
  const link: Link = { client, server, isMarked: false, bytes: 0, isMuted: false }
  links.add(link)
  client.on('close', () => abort(server))
  server.on('close', () => links.delete(link))
  await Promise.all([forward(state, link, 'request'), forward(state, link, 'reply')])
}

/** Waits while the fault is `silent`. */
async function untilHeard(state: State): Promise<void> {
  while (state.fault.kind === 'silent') await once(state.changes, 'change')
}

async function forward(state: State, link: Link, direction: Direction): Promise<void> {
  const [from, to] = direction === 'request' ? [link.client, link.server] : [link.server, link.client]
  try {
    for await (const chunk of from as AsyncIterable<Buffer>) {
      await untilHeard(state)
      if (direction === 'request') mark(state, link, chunk)
      else if (link.isMuted || isDropped(state, link, chunk)) continue
      await send(state, link, to, chunk, direction)
    }
    await untilHeard(state)
    to.end()
  } catch {
    // The other side does not notice a broken connection while the network is silent.
    await untilHeard(state)
    from.destroy()
    to.destroy()
  }
}

function mark({ drop }: State, link: Link, chunk: Buffer): void {
  if (drop !== undefined && chunk.includes(drop.after)) link.isMarked = true
}

function isDropped(state: State, link: Link, chunk: Buffer): boolean {
  const { drop } = state
  if (drop === undefined || !link.isMarked || !chunk.includes(drop.reply)) return false
  state.drop = undefined
  link.isMuted = true
  if (!drop.isSilent) abort(link.client)
  drop.done()
  return true
}

const slicesPerSecond = 20

async function send({ fault }: State, link: Link, to: Socket, chunk: Buffer, direction: Direction) {
  if (fault.kind === 'cut' && direction === fault.of) {
    const left = fault.bytes - link.bytes
    link.bytes += chunk.length
    if (chunk.length >= left) {
      to.write(chunk.subarray(0, left), () => {
        abort(link.client)
        abort(link.server)
      })
      return
    }
  }
  if (fault.kind !== 'slow') return write(to, chunk)
  const { delayMs = 0, bytesPerSecond } = fault
  await pause(delayMs)
  if (bytesPerSecond === undefined) return write(to, chunk)
  const size = Math.ceil(bytesPerSecond / slicesPerSecond)
  for (let at = 0; at < chunk.length; at += size) {
    await pause(1_000 / slicesPerSecond)
    await write(to, chunk.subarray(at, at + size))
  }
}

async function write(to: Socket, chunk: Buffer): Promise<void> {
  if (!to.write(chunk) && !to.destroyed) await Promise.race([once(to, 'drain'), once(to, 'close')])
}
