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
  /** Rejects when a call has an invalid signature. */
  received: Promise<Received>
  close: () => void
}

/** Listens on a free loopback port for the one call the demo expects; `secret` starts with `whsec_`. */
export async function receiver(secret: string): Promise<Receiver> {
  // The path is unguessable, so any request to it claims to be from the service.
  const path = `/${randomUUID()}`
  const { promise, resolve, reject } = Promise.withResolvers<Received>()
  promise.catch(() => {})
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST' || request.url !== path) return response.writeHead(404).end()
    const wrong = await judge(request, secret, resolve).catch((error) => `the call broke off: ${error.message}`)
    if (wrong !== null) reject(new Error(`The webhook call is not to be trusted: ${wrong}`))
    response.writeHead(wrong === null ? 204 : 401).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const close = () => {
    server.close()
    server.closeAllConnections()
  }
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, received: promise, close }
}

async function judge(request: IncomingMessage, secret: string, accept: (call: Received) => void) {
  const body = Buffer.concat(await request.toArray())
  const wrong = mistake(secret, request.headers, body, Date.now())
  if (wrong === null) accept({ event: String(request.headers['webhook-event']), body: JSON.parse(body.toString()) })
  return wrong
}

const toleranceSeconds = 300

/** Why a signed call is invalid by Standard Webhooks 1.0, or null: all checks of a receiver. */
export function mistake(secret: string, headers: IncomingHttpHeaders, body: Buffer, nowMs: number): string | null {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers
  if (!id || !timestamp || !signatures) return 'a webhook header is missing'
  if (!(Math.abs(nowMs / 1_000 - Number(timestamp)) <= toleranceSeconds)) return 'its timestamp is too old or too new'
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest()
  const given = String(signatures)
    .split(' ')
    .filter((part) => part.startsWith('v1,'))
  const signed = given.some((part) => isSame(Buffer.from(part.slice('v1,'.length), 'base64'), expected))
  return signed ? null : 'its signature does not fit'
}

const isSame = (one: Buffer, other: Buffer): boolean => one.length === other.length && timingSafeEqual(one, other)
