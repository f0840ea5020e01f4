import type { FastifyReply } from 'fastify'

/** Aborted when the response was sent completely or its connection closed before. */
export function responseEnd({ raw }: FastifyReply): AbortSignal {
  const end = new AbortController()
  // The connection may be closed before the handler gets here.
  if (raw.closed || raw.destroyed) end.abort()
  else raw.once('close', () => end.abort())
  return end.signal
}

/** Runs a callback when the signal is aborted, or at once if it already is. */
export function whenAborted(signal: AbortSignal, run: () => void): void {
  if (signal.aborted) run()
  else signal.addEventListener('abort', run, { once: true })
}
