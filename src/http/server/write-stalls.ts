import type { Server } from 'node:http'
import type { Socket } from 'node:net'

export interface StalledOptions {
  /** Runs something after so many ms; returns how to call it off. */
  later: (ms: number, run: () => void) => () => void
}

/** What Node.js knows of the bytes on their way: handed to the system, and of these not yet taken by it. */
type Writing = Socket & { _handle?: { bytesWritten: number; writeQueueSize: number } | null }

interface Progress {
  taken: number
  /** How many looks ago bytes were taken last. */
  looks: number
}

const lookEveryMs = 5_000
const stalledLooks = 6

/**
 * Cuts connections whose client has taken nothing of an answer for 30 to 35 seconds, so that files and memory are not
 * held for it. Any byte taken counts, of a stream as of one large buffer, below TLS too. A connection that has nothing
 * to send, such as one that waits for an event, is never stalled.
 */
export function cutStalled(server: Server, { later }: StalledOptions): void {
  const connections = new Map<Writing, Progress>()
  let cancel: (() => void) | null = null
  const look = () => {
    for (const [socket, progress] of connections) if (isStalled(socket, progress)) socket.destroy()
    cancel = connections.size > 0 ? later(lookEveryMs, look) : null
  }
  // For TLS this is the connection below it, which has the bytes as they travel.
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
