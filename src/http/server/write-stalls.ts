import type { Server } from 'node:http'
import type { Socket } from 'node:net'

export interface StalledOptions {
  /** Runs a callback after `ms`; returns a function that cancels it. */
  later: (ms: number, run: () => void) => () => void
}

/** Node's counters of a socket: bytes written in total, and bytes the kernel has not accepted yet. */
type Writing = Socket & { _handle?: { bytesWritten: number; writeQueueSize: number } | null }

interface Progress {
  taken: number
  /** Number of consecutive checks in which no byte was accepted. */
  looks: number
}

const lookEveryMs = 5_000
const stalledLooks = 6

/**
 * Destroys connections whose client has accepted no byte of a response for 30 to 35 seconds, so that they do not hold file
 * descriptors and memory. Any accepted byte counts, whether of a stream or of one large buffer, with or without TLS. A
 * connection with nothing to send, such as one that waits for an event, never counts as stalled.
 */
export function cutStalled(server: Server, { later }: StalledOptions): void {
  const connections = new Map<Writing, Progress>()
  let cancel: (() => void) | null = null
  const look = () => {
    for (const [socket, progress] of connections) if (isStalled(socket, progress)) socket.destroy()
    cancel = connections.size > 0 ? later(lookEveryMs, look) : null
  }
  // With TLS, this is the underlying TCP connection, which counts encrypted bytes.
  server.on('connection', (socket: Writing) => {
    connections.set(socket, { taken: 0, looks: 0 })
    socket.once('close', () => {
      connections.delete(socket)
      if (connections.size > 0) return
      cancel?.()
      cancel = null
    })
    cancel ??= later(lookEveryMs, look)
  })
}

function isStalled({ _handle: handle }: Writing, progress: Progress): boolean {
  const waiting = handle?.writeQueueSize ?? 0
  const taken = (handle?.bytesWritten ?? 0) - waiting
  progress.looks = waiting > 0 && taken === progress.taken ? progress.looks + 1 : 0
  progress.taken = taken
  return progress.looks >= stalledLooks
}
