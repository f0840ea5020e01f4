import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A webhook call with a valid signature. */
export interface Received {
  event: string
  body: { taskId: string; status: string; resultUrl?: string }
}

export interface Receiver {
  url: string
  /** Resolves with the first valid call; rejects if an invalid call arrives before it. */
  received: Promise<Received>
  close: () => void
}

/** Listens on a free loopback port for the single call that the demo expects; `secret` starts with `whsec_`. */
export async function receiver(secret: string): Promise<Receiver> {
  // The path cannot be guessed, so every request to it is treated as a call from the service.
  const path = `/${randomUUID()}`
  const { promise, resolve, reject } = Promise.withResolvers<Received>()
  promise.catch(() => {})
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST' || request.url !== path) return response.writeHead(404).end()
    const violation = await verify(request, secret, resolve).catch((error) => `the call was aborted: ${error.message}`)
    if (violation !== null) reject(new Error(`The webhook call cannot be trusted: ${violation}`))
    response.writeHead(violation === null ? 204 : 401).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const close = () => {
    server.close()
    server.closeAllConnections()
  }
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, received: promise, close }
}

async function verify(request: IncomingMessage, secret: string, accept: (call: Received) => void) {
  const body = Buffer.concat(await request.toArray())
  const violation = invalidReason(secret, request.headers, body, Date.now())
  if (violation === null) accept({ event: String(request.headers['webhook-event']), body: JSON.parse(body.toString()) })
  return violation
}

const toleranceSeconds = 300

/** Returns the reason why a call violates Standard Webhooks 1.0, or null. Performs every check that a receiver should. */
export function invalidReason(
  secret: string,
  headers: IncomingHttpHeaders,
  body: Buffer,
  nowMs: number,
): string | null {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers
  if (!id || !timestamp || !signatures) return 'a webhook header is missing'
  if (!(Math.abs(nowMs / 1_000 - Number(timestamp)) <= toleranceSeconds))
    return 'its timestamp is not within five minutes of now'
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest()
  const candidates = String(signatures)
    .split(' ')
    .filter((part) => part.startsWith('v1,'))
  const isSigned = candidates.some((part) => isSame(Buffer.from(part.slice('v1,'.length), 'base64'), expected))
  return isSigned ? null : 'its signature does not match'
}

const isSame = (one: Buffer, other: Buffer): boolean => one.length === other.length && timingSafeEqual(one, other)
