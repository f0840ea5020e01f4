import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Agent } from 'undici'
import type { Config } from '../../config/config.ts'
import { openSession, type SessionOptions } from '../api-session.ts'
import { jsonOf } from '../demo/api.ts'
import { closing, type Defer, interruptible } from '../demo/ending.ts'
import { invalidReason } from '../demo/receiver.ts'
import { print } from '../print.ts'
import type { Registration } from './actions.ts'

interface ListenOptions extends SessionOptions {
  forward?: string
  events: string
}

/**
 * Registers a webhook for a loopback endpoint and receives calls until Ctrl-C or SIGTERM, then deletes the webhook,
 * even after an error.
 */
export async function listen(config: Config, options: ListenOptions): Promise<void> {
  const forward = options.forward === undefined ? undefined : targetOf(options.forward)
  const { signal, release } = interruptible()
  const { defer, close } = closing()
  defer(release)
  try {
    await receive(config, { ...options, signal, defer, ...(forward && { forward }) })
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    await close()
  }
}

function targetOf(url: string): string {
  const { protocol } = URL.canParse(url) ? new URL(url) : { protocol: '' }
  if (/^https?:$/.test(protocol)) return url
  throw new Error(`--forward ${url}: expected a URL such as http://localhost:3000/hook`)
}

interface Receiving extends ListenOptions {
  signal: AbortSignal
  defer: Defer
}

async function receive(config: Config, { signal, defer, ...options }: Receiving): Promise<void> {
  // A random path that only the service knows. Requests to other paths get 404 and are not printed.
  const path = `/${randomUUID()}`
  const secret = Promise.withResolvers<string>()
  secret.promise.catch(() => {})
  const agent = new Agent()
  defer(() => agent.destroy())
  const server = createServer(async (request, response) => {
    const status =
      request.url === path ? await verifyAndForward(request, await secret.promise, agent, options.forward) : 404
    response.writeHead(status).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  defer(() => {
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`
  const webhook = await register(config, options, url, signal, defer)
  secret.resolve(webhook.secret)
  print(`Listening for ${webhook.event} as ${webhook.id}${options.forward ? `, forwarding to ${options.forward}` : ''}`)
  if (!signal.aborted) await once(signal, 'abort')
}

async function register(config: Config, options: ListenOptions, url: string, signal: AbortSignal, defer: Defer) {
  const { call, close } = await openSession(config, options, signal)
  try {
    const json = { event: options.events, callbackUrl: url, description: 'plinth webhooks listen' }
    const webhook = await jsonOf<Registration & { secret: string }>(await call('POST', '/api/webhooks', { json }))
    defer(() => unregister(config, options, webhook.id))
    return webhook
  } finally {
    close()
  }
}

const removalMs = 10_000

/**
 * Deletes the webhook in a new session, because the first session may have been aborted and its token may have expired.
 */
async function unregister(config: Config, options: SessionOptions, id: string): Promise<void> {
  const { call, close } = await openSession(config, options, AbortSignal.timeout(removalMs))
  await call('DELETE', `/api/webhooks/${id}`).finally(close)
  print(`Removed ${id}`)
}

/** Verifies a call, forwards it, and prints a line about it; returns the status for the response. */
async function verifyAndForward(
  request: IncomingMessage,
  secret: string,
  agent: Agent,
  forward?: string,
): Promise<number> {
  const startedAt = performance.now()
  const { headers } = request
  const about = `${new Date().toISOString()}  ${headers['webhook-event']}  ${headers['webhook-id']}`
  const body = Buffer.concat(await request.toArray())
  const violation = invalidReason(secret, headers, body, Date.now())
  if (violation !== null) {
    print(`${about}  rejected: ${violation}`)
    return 401
  }
  const { status, outcome } =
    forward === undefined ? { status: 204, outcome: 'verified' } : await send(agent, forward, headers, body)
  print(`${about}  ${outcome} in ${Math.round(performance.now() - startedAt)} ms`)
  return status
}

/** Header fields that are not forwarded: connection-specific fields (RFC 9110 §7.6.1), framing fields, and Host. */
const hopByHop = /^(host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|expect)$/

async function send(agent: Agent, forward: string, headers: IncomingMessage['headers'], body: Buffer) {
  const endToEnd = Object.fromEntries(Object.entries(headers).filter(([name]) => !hopByHop.test(name)))
  const { origin, pathname, search } = new URL(forward)
  try {
    const target = { origin, path: pathname + search, method: 'POST' } as const
    const response = await agent.request({ ...target, headers: endToEnd, body })
    await response.body.dump()
    return { status: response.statusCode, outcome: `→ ${response.statusCode}` }
  } catch (error) {
    return { status: 502, outcome: `→ ${(error as NodeJS.ErrnoException).code ?? (error as Error).message}` }
  }
}
