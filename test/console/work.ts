import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { request } from 'undici'
import { browser } from '../oauth/browser.ts'
import { client, codeFlow, type Person, person, type Real, relyingParty } from '../oauth/real.ts'
import { everyScope } from '../support/app.ts'
import { eventually } from '../support/service.ts'
import { addPast } from './past.ts'

type Json = Record<string, unknown>
type Send = (method: string, path: string, body?: object, headers?: Record<string, string>) => Promise<Answer>
interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  // biome-ignore lint/suspicious/noExplicitAny: tests read a response field by field
  json: any
}

export interface Work {
  /** The client that sends the requests. */
  clientId: string
  /** A webhook whose endpoint responds with 503 until `repair` is called. */
  failing: { id: string; deliveryId: string; repair: () => void }
  reportId: string
  /** An API key that has reached its rate limit. */
  key: { id: string; name: string }
  /** A user who is logged in to two clients in two browsers, and the access tokens of the clients. */
  user: Person
  logins: { laptop: string; phone: string }
  /** The id of a request that got a 422. */
  requestId: string
  /** Sends a request as the client. */
  send: Send
  /** Requests a backup, and waits until it is completed. */
  backUp: () => Promise<void>
  /** Returns the status of a request with an access token. */
  statusOf: (accessToken: string) => Promise<number>
  clientNamed: (name: string) => Promise<{ scopes: string; secretHash: string | null }>
  close: () => void
}

/** Settings that give reports a low rate limit, deprecate v1, and enable backups. */
export const workSettings = {
  PLINTH_RATE_LIMIT_REPORTS: '5/3600',
  PLINTH_VERSIONS: JSON.stringify({
    v1: { status: 'deprecated', deprecatedAt: '2026-09-01', sunsetAt: '2027-09-01', successor: 'v2' },
  }),
  PLINTH_BACKUP: '0 3 * * *',
  PLINTH_BACKUP_PASSPHRASE: 'harbour violin marble lantern',
}

const titles = ['Sorting', 'Compilers', 'Queues', 'Graphs', 'Numbers', 'Networks', 'Types', 'Proofs']

/** Creates typical data of clients and users: rows, successful and failed deliveries, reports, errors, and logins. */
export async function createWork(real: Real): Promise<Work> {
  const shop = await clientOf(real, 'Shop', everyScope)
  const operator = await clientOf(real, 'Deployment', `${everyScope} admin`)
  const endpoints = await startEndpoints()
  try {
    await addRows(shop.send)
    const failing = await addWebhooks(shop.send, endpoints.address)
    const done = {
      clientId: shop.id,
      failing: { ...failing, repair: endpoints.repair },
      reportId: await addReports(shop.send),
      key: await exhaustKey(operator.send, shop.send),
      ...(await logInTwice(real)),
      requestId: await rejectedRequest(shop.send),
    }
    await addPast(real, [
      [shop.id, { 200: 460, 404: 23, 429: 64 }],
      [operator.id, { 200: 52 }],
    ])
    return { ...done, ...checksOf(real, shop.send, operator.send), close: endpoints.close }
  } catch (error) {
    endpoints.close()
    throw error
  }
}

/** Creates a client, and returns its id and a function that sends requests with its token. */
async function clientOf(real: Real, name: string, scopes: string): Promise<{ id: string; send: Send }> {
  const { id, secret } = await client(real, { name, scopes: scopes.split(' '), grants: ['client_credentials'] })
  const call: Send = async (method, path, body, headers) => {
    const text = body instanceof URLSearchParams ? body.toString() : body && JSON.stringify(body)
    const options = { method: method as 'GET', dispatcher: real.agent, ...(text !== undefined && { body: text }) }
    const response = await request(real.baseUrl + path, { ...options, headers: headers ?? {} })
    const received = await response.body.text()
    const json = received === '' ? {} : JSON.parse(received)
    return { status: response.statusCode, headers: response.headers, json }
  }
  const credentials = { grant_type: 'client_credentials', client_id: id, client_secret: String(secret) }
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const { json } = await call('POST', '/oauth/token', new URLSearchParams(credentials), form)
  const authorization = { authorization: `Bearer ${json.access_token}` }
  const send: Send = (method, path, body, headers) =>
    call(method, path, body, { ...authorization, ...(body && { 'content-type': 'application/json' }), ...headers })
  return { id, send }
}

const checksOf = (real: Real, send: Send, operate: Send) => ({
  send,
  backUp: async () => {
    const { id } = await created(operate, '/api/backups', {})
    await eventually('the backup is completed', async () => {
      const { json } = await operate('GET', `/api/backups/${id}`)
      return json.status === 'completed'
    })
  },
  statusOf: async (accessToken: string) =>
    (await send('GET', '/users', undefined, { authorization: `Bearer ${accessToken}` })).status,
  clientNamed: (name: string) =>
    real.db.read
      .selectFrom('clients')
      .select(['scopes', 'secretHash'])
      .where('name', '=', name)
      .executeTakeFirstOrThrow(),
})

async function created(send: Send, path: string, body: Json): Promise<Json> {
  const { status, json } = await send('POST', path, body)
  assert.ok(status === 201 || status === 202, `${path}: ${status} ${JSON.stringify(json)}`)
  return json
}

async function startEndpoints() {
  let isRepaired = false
  const server = createServer((incoming, response) => {
    const isWorking = isRepaired || incoming.url !== '/accounting'
    response.writeHead(isWorking ? 200 : 503, { 'content-type': 'text/plain' })
    response.end(isWorking ? 'thank you' : 'the ledger is locked until the month is closed')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    repair: () => {
      isRepaired = true
    },
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

async function addRows(send: Send): Promise<void> {
  for (let n = 1; n <= 24; n++) await created(send, '/products', { name: `Lamp ${n}`, price: n * 2.5 })
  for (const title of titles) await created(send, '/books', { title, author: 'D. Knuth', genre: 'computing' })
  const { status } = await send('DELETE', '/products/3')
  assert.equal(status, 204)
}

/** Registers a working and a failing webhook, and waits for a delivery attempt to each. */
async function addWebhooks(send: Send, address: string): Promise<{ id: string; deliveryId: string }> {
  const hook = (description: string, event: string, path: string) =>
    created(send, '/api/webhooks', { event, callbackUrl: address + path, description })
  const working = await hook('Stock', 'product.*', '/stock')
  const failing = await hook('Accounting', 'book.*', '/accounting')
  await created(send, '/products', { name: 'Desk', price: 240 })
  await created(send, '/books', { title: 'Ledgers', author: 'L. Pacioli', genre: 'accounting' })
  const attempted = async ({ id }: Json) => {
    const { json } = await send('GET', `/api/webhooks/${id}/deliveries`)
    return (json as Json[]).find(({ attempts }) => (attempts as unknown[]).length > 0)
  }
  await eventually('a delivery has succeeded', () => attempted(working))
  const delivery = await eventually('a delivery has failed', () => attempted(failing))
  return { id: String(failing.id), deliveryId: String(delivery.id) }
}

/** Requests a report, waits until it is completed, and requests more until one gets a 429. */
async function addReports(send: Send): Promise<string> {
  const { taskId } = await created(send, '/api/reports', { reportType: 'products', format: 'csv' })
  await eventually('the report is completed', async () => {
    const { json } = await send('GET', `/api/reports/${taskId}/status`)
    return json.status === 'completed'
  })
  const statuses: number[] = []
  for (let n = 0; n < 5; n++) {
    statuses.push((await send('POST', '/api/reports', { reportType: 'books', format: 'json' })).status)
  }
  assert.deepEqual(statuses, [202, 202, 202, 202, 429])
  return String(taskId)
}

/** Creates an API key, and sends requests with it until one gets a 429. */
async function exhaustKey(operate: Send, send: Send): Promise<{ id: string; name: string }> {
  const { id, key } = await created(operate, '/api/keys', { name: 'Batch import', rate: '20/3600' })
  const headers = { 'x-api-key': String(key) }
  let last = 0
  for (let n = 0; n <= 20; n++) last = (await send('GET', '/products?limit=1', undefined, headers)).status
  assert.equal(last, 429)
  return { id: String(id), name: 'Batch import' }
}

async function logInTwice(real: Real): Promise<Pick<Work, 'user' | 'logins'>> {
  const user = await person(real, { name: 'Edsger Dijkstra' })
  const tokenOf = async (name: string) => {
    const config = await relyingParty(real, await client(real, { name, scopes: ['openid', 'users:read'] }))
    const { tokens } = await codeFlow(config, browser(real), user, { scope: 'openid users:read' })
    return tokens.access_token
  }
  return { user, logins: { laptop: await tokenOf('Laptop app'), phone: await tokenOf('Phone app') } }
}

/** Sends an invalid request, and returns the id of the request. */
async function rejectedRequest(send: Send): Promise<string> {
  const { status, headers } = await send('POST', '/products', { name: 'Lamp', price: -1 })
  assert.equal(status, 422)
  return String(headers['x-request-id'])
}
