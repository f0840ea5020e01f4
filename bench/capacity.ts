import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { Agent, request } from 'undici'
import { killAll } from '../test/cli/support.ts'
import { type Node, nodesOn } from '../test/support/nodes.ts'
import { eventually } from '../test/support/service.ts'
import { cpuMsOf } from './cpu-and-memory.ts'
import { nameOf, priceOf, unreachableLimits } from './service.ts'

// Measures the CPU time of a service, and of the PostgreSQL server behind it, per request, report row and delivery.

const usage = `node bench/capacity.ts --postgres URL [--redis URL] [--pooler URL] [--count N]

Creates an empty database on the server, which must run on this machine under this URL's user. With --pooler, the URL of
a PgBouncer in front of the server, requests go through it.`

const { values } = parseArgs({
  options: {
    postgres: { type: 'string' },
    redis: { type: 'string' },
    pooler: { type: 'string' },
    count: { type: 'string', default: '3000' },
  },
})
const products = 100_000
const inFlight = 32
const endpoints = 20
const agent = new Agent({ connections: inFlight, pipelining: 1 })
const name = `plinth_capacity_${process.pid}`

if (values.postgres === undefined) throw new Error(usage)
const at = (url: string) => Object.assign(new URL(url), { pathname: `/${name}` }).href
const admin = new pg.Client({ connectionString: values.postgres })
await admin.connect()
await admin.query(`create database ${name}`)
const nodes = nodesOn(at(values.pooler ?? values.postgres), {
  ...{ PLINTH_DATABASE_DIRECT_URL: at(values.postgres), PLINTH_LOG_LEVEL: 'info' },
  ...{ ...unreachableLimits, PLINTH_WEBHOOK_RATE: '0' },
  ...(values.redis && { REDIS_URL: values.redis }),
})
try {
  const db = new pg.Client({ connectionString: at(values.postgres) })
  await db.connect()
  await measureAll(await nodes.start(), db, Number(values.count)).finally(() => db.end())
} finally {
  killAll()
  await nodes.remove()
  await admin.query(`drop database ${name} with (force)`)
  await admin.end()
}

interface Sent {
  method?: string
  path: string
  headers?: Record<string, string>
  body?: string
}

async function measureAll(node: Node, db: pg.Client, count: number): Promise<void> {
  const { port } = node
  await fill(db)
  const meter = meterOf(node.child.pid as number, db)
  const token = await node.token()
  const json = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const basic = { authorization: `Basic ${Buffer.from('boot:boot+secret').toString('base64')}`, ...form }
  const get = (n: number) => ({ path: `/products/${((n * 7_919) % products) + 1}`, headers: json })
  const list = (n: number) => ({ path: `/products?limit=${50 - (n % 2)}&sort=price`, headers: json })
  const post = (n: number) => ({
    ...{ method: 'POST', path: '/products', headers: json },
    body: JSON.stringify({ name: `New ${n} ${performance.now()}`, price: 1 }),
  })
  const grant = { method: 'POST', path: '/oauth/token', headers: basic, body: 'grant_type=client_credentials' }
  const kinds: [what: string, make: (n: number) => Sent, total: number][] = [
    ['GET /products/{id}', get, count],
    ['GET /products, 50 rows', list, count],
    ['POST /products', post, count],
    ['POST /oauth/token', () => grant, Math.ceil(count / 3)],
  ]
  for (const [what, make, total] of kinds) {
    await sendAll(port, make, Math.ceil(total / 5))
    await meter(what, total, () => sendAll(port, make, total))
  }
  await reports(node, token, meter)
  await deliveries(node, port, token, { meter, post, count })
}

async function fill(db: pg.Client): Promise<void> {
  const rows = Array.from({ length: products }, (_, n) => ({ name: nameOf(n + 1), price: priceOf(n + 1) }))
  await db.query(
    `insert into products (name, name_key, price, revision, created_at, updated_at)
     select r.name, lower(r.name), r.price, 1, '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z'
     from jsonb_to_recordset($1::jsonb) as r (name text, price float8)`,
    [JSON.stringify(rows)],
  )
  await db.query('vacuum analyze products')
}

type Meter = (what: string, count: number, work: () => Promise<unknown>) => Promise<void>

/**
 * Returns a meter: it runs some work, and prints the CPU time of the service and its database backends in µs per unit.
 */
function meterOf(pid: number, db: pg.Client): Meter {
  const backends = async () => {
    const { rows } = await db.query('select pid from pg_stat_activity where datname = current_database()')
    return new Map(rows.map(({ pid }) => [pid as number, cpuMsOf(pid)]))
  }
  return async (what, count, work) => {
    const [before, backendsBefore] = [cpuMsOf(pid), await backends()]
    await work()
    const service = cpuMsOf(pid) - before
    let server = 0
    for (const [backend, ms] of await backends()) server += ms - (backendsBefore.get(backend) ?? 0)
    const us = (ms: number) => ((ms * 1_000) / count).toFixed(count > 10_000 ? 1 : 0)
    console.log(`${what.padEnd(28)} ${us(service).padStart(8)} µs service ${us(server).padStart(8)} µs PostgreSQL`)
  }
}

async function sendAll(port: number, make: (n: number) => Sent, total: number): Promise<void> {
  let next = 0
  const run = async () => {
    for (let n = next++; n < total; n = next++) {
      const { method = 'GET', path, headers, body } = make(n)
      const all = { ...headers, 'x-forwarded-proto': 'https', host: 'plinth.test' }
      const options = { method: method as 'GET', headers: all, body, dispatcher: agent }
      const response = await request(`http://127.0.0.1:${port}${path}`, options)
      const text = await response.body.text()
      if (response.statusCode >= 300) throw new Error(`${path}: ${response.statusCode} ${text}`)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, run))
}

async function reports(node: Node, token: string, meter: Meter): Promise<void> {
  const one = async (format: string) => {
    const accepted = await node.call('POST', '/api/reports', { token, body: { reportType: 'products', format } })
    const path = `/api/reports/${accepted.json().taskId}/status`
    await eventually('the report is completed', async () => {
      const { status } = (await node.call('GET', path, { token })).json()
      return status === 'completed'
    })
  }
  for (const format of ['csv', 'xlsx']) await meter(`a row of a ${format} report`, products, () => one(format))
}

/** Measures deliveries to twenty endpoints, including the requests that cause the events. */
async function deliveries(
  node: Node,
  port: number,
  token: string,
  { meter, post, count }: { meter: Meter; post: (n: number) => Sent; count: number },
): Promise<void> {
  let received = 0
  const receiver = createServer((incoming, response) => {
    incoming.resume().on('end', () => {
      received++
      response.writeHead(204).end()
    })
  }).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  const callbackUrl = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`
  for (let n = 0; n < endpoints; n++) {
    const body = { event: 'product.created', callbackUrl: `${callbackUrl}${n}` }
    const { status, text } = await node.call('POST', '/api/webhooks', { token, body })
    if (status !== 201) throw new Error(text)
  }
  const events = Math.ceil(count / 10)
  const total = events * endpoints
  await meter('a delivery, with its event', total, async () => {
    await sendAll(port, post, events)
    await eventually('all are delivered', async () => received >= total, 240_000)
  })
  receiver.closeAllConnections()
  receiver.close()
}
