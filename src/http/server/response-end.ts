import type { FastifyReply } from 'fastify'

/** Aborted when a response has ended: when all of it was sent, or when its connection was closed before. */
export function responseEnd({ raw }: FastifyReply): AbortSignal {
  const end = new AbortController()
  // The connection may be gone by the time a handler has read what it needs.
  if (raw.closed || raw.destroyed) end.abort()
  else raw.once('close', () => end.abort())
  return end.signal
}

/** Runs something when a signal is aborted, at once when it is already. */
export function whenAborted(signal: AbortSignal, run: () => void): void {
  if (signal.aborted) run()
  else signal.addEventListener('abort', run, { once: true })
}
