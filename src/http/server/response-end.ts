import type { ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'

/** Returns a signal that is aborted once the response has been sent completely or its connection has closed. */
export function responseEnd({ raw }: FastifyReply): AbortSignal {
  const end = new AbortController()
  // The connection may already have closed before the handler runs.
  if (raw.closed || raw.destroyed || streamOf(raw)?.destroyed) end.abort()
  else raw.once('close', () => end.abort())
  return end.signal
}

/**
 * Returns the HTTP/2 stream of a response, because the response's own properties do not show that the stream was
 * closed.
 */
const streamOf = (response: ServerResponse) => (response as { stream?: { destroyed: boolean } }).stream

/** Runs a callback when the signal is aborted, or immediately if it is already aborted. */
export function whenAborted(signal: AbortSignal, run: () => void): void {
  if (signal.aborted) run()
  else signal.addEventListener('abort', run, { once: true })
}
