import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

const safe = /^[A-Za-z0-9._-]{8,64}$/

/** A client's own `X-Request-Id` when it is 8 to 64 safe characters, else a new one. */
export function requestId(request: { headers: IncomingMessage['headers'] }): string {
  const sent = request.headers['x-request-id']
  return typeof sent === 'string' && safe.test(sent) ? sent : randomUUID()
}
