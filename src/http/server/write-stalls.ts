import type { Server } from 'node:http'
import type { Socket } from 'node:net'

export interface StalledOptions {
  /** Runs a callback after `ms`; returns a function that cancels it. */
  later: (ms: number, run: () => void) => () => void
}

/** Node's counters for a socket: total bytes written, and bytes that the kernel has not accepted yet. */
type Writing = Socket & { _handle?: { bytesWritten: number; writeQueueSize: number } | null }

interface Progress {
  accepted: number
  /** Number of consecutive checks that found bytes waiting and none accepted since the previous check. */
  checks: number
}

const checkIntervalMs = 5_000
const stalledChecks = 6

/**
 * Destroys connections whose client has accepted no byte of a response for 30 to 35 seconds, so that they do not hold file
 * descriptors and memory. Any accepted byte counts, for streams and single large buffers, with and without TLS. A connection
 * with nothing to send, for example while a request waits for an event, never counts as stalled.
 */
export function cutStalled(server: Server, { later }: StalledOptions): void {
  const connections = new Map<Writing, Progress>()
  let cancel: (() => void) | null = null
  const check = () => {
    for (const [socket, progress] of connections) if (isStalled(socket, progress)) socket.destroy()
    cancel = connections.size > 0 ? later(checkIntervalMs, check) : null
  }
  // With TLS, this is the underlying TCP connection, which counts encrypted bytes.
  server.on('connection', (socket: Writing) => {
    connections.set(socket, { accepted: 0, checks: 0 })
    socket.once('close', () => {
      connections.delete(socket)
      if (connections.size > 0) return
      cancel?.()
      cancel = null
    })
    cancel ??= later(checkIntervalMs, check)
  })
}

function isStalled({ _handle: handle }: Writing, progress: Progress): boolean {
  const waiting = handle?.writeQueueSize ?? 0
  const accepted = (handle?.bytesWritten ?? 0) - waiting
  progress.checks = waiting > 0 && accepted === progress.accepted ? progress.checks + 1 : 0
  progress.accepted = accepted
  return progress.checks >= stalledChecks
}
