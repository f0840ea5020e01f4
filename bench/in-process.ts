import { randomBytes } from 'node:crypto'
import { openSync, writeSync } from 'node:fs'
import { IncomingMessage, type Server, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import Fastify from 'fastify'
import { Type } from 'typebox'
import { products } from '../src/catalog/products.ts'
import type { Verify } from '../src/http/policies/authenticate.ts'
import { responseClass } from '../src/http/server/raw-headers.ts'
import { openLogs } from '../src/logging/logs.ts'
import { quotaUses } from '../src/rate-limits/stores/quotas.ts'
import { listQuerySchema } from '../src/resources/list-parameters.ts'
import { representation } from '../src/resources/representation.ts'
import { migrate } from '../src/storage/migrate.ts'
import { openDatabase } from '../src/storage/open.ts'
import { requestCounter } from '../src/storage/request-counts.ts'
import { trafficCounter } from '../src/traffic/counter.ts'
import { requestLog } from '../src/traffic/request-log.ts'
import { testApp } from '../test/support/app.ts'
import { rulesOf } from '../test/support/limits.ts'
import { openSandbox } from './sandbox.ts'

/**
 * Measures the CPU time per request in one process, without a network: from the parsed request to the write of the response.
 * Other processes on the machine hardly affect it. Prints the lowest of several rounds for bare Fastify and for the service,
 * with all policies, limits, quotas, the access log and statistics.
 */
const [rounds, perRound, rows, unreachable] = [9, 20_000, 2_000, 1_000_000_000]
const authorization = `Bearer ${'e'.repeat(700)}`
const fields = { host: 'localhost', 'x-forwarded-proto': 'https', authorization }
const onError = (error: unknown) => console.error(error)

const copy = Buffer.alloc(1_048_576)

/** Returns a connection that copies what is written to it, as the kernel would. */
function sink(): Socket {
  const write = (data: string | Uint8Array, encoding: unknown, done: unknown) => {
    if (typeof data === 'string') copy.write(data, encoding === 'latin1' ? 'latin1' : 'utf8')
    const written = typeof encoding === 'function' ? encoding : done
    if (typeof written === 'function') process.nextTick(written as () => void)
    return true
  }
  const socket = Object.assign(new Socket(), { write })
  return Object.defineProperty(socket, 'remoteAddress', { value: '127.0.0.1' })
}

const sockets = Array.from({ length: 32 }, sink)

type Parsed = IncomingMessage & { _addHeaderLines: (raw: readonly string[], count: number) => void }

/** Passes a request to a server as the parser of Node.js does. */
function receive(server: Server, path: string, raw: readonly string[], at: number): void {
  const socket = sockets[at % sockets.length] as Socket
  const request = new IncomingMessage(socket) as Parsed
  Object.assign(request, { httpVersionMajor: 1, httpVersionMinor: 1, httpVersion: '1.1', method: 'GET', url: path })
  request._addHeaderLines(raw, raw.length)
  const response = new (server === bare.server ? ServerResponse : responseClass)(request)
  response.shouldKeepAlive = true
  response.assignSocket(socket)
  response.on('finish', () => response.detachSocket(socket))
  // Node.js reads the field Expect of each request, which makes it collect all fields.
  if (request.headers.expect === undefined) server.emit('request', request, response)
}

/** Returns the CPU time per request in microseconds. */
async function measure(server: Server, paths: readonly string[], raw: readonly string[]): Promise<number> {
  const before = process.cpuUsage()
  for (let at = 0; at < perRound; at++) {
    receive(server, paths[at % paths.length] as string, [...raw], at)
    if (at % sockets.length === 0) await turn()
  }
  const { user, system } = process.cpuUsage(before)
  return (user + system) / perRound
}

/** Starts the service on a database with products, with its log in a file. */
async function startInProcess(folder: string) {
  const db = await openDatabase(`file:${join(folder, 'plinth.db')}`)
  await migrate(db)
  const at = new Date(0).toISOString()
  await db.write(async (tx) => {
    for (let id = 1; id <= rows; id++) {
      const name = `Oak kettle ${1_000_000 + id}`
      const row = { name, nameKey: name.toLowerCase(), price: 12.5, revision: 1, createdAt: at, updatedAt: at }
      await tx.insertInto('products').values(row).execute()
    }
  })
  const file = openSync(join(folder, 'access.log'), 'w')
  const out = { isTTY: false, columns: 80, write: (text: string) => writeSync(file, text) > 0 }
  const logs = openLogs('info', { out, env: {}, now: Date.now })
  const observed = { db, node: 'bench', now: Date.now, onError }
  const [perDay, traffic] = [requestCounter(observed), trafficCounter(observed)]
  const logged = requestLog({ ...observed, rate: 50, random: randomBytes, onUnlogged: () => {} })
  const verification = { caller: { clientId: 'bench', subject: 'bench', scopes: new Set(['products:write']) } }
  const verify: Verify = Object.assign(() => verification, { known: () => () => verification })
  const unreached = { calls: unreachable, seconds: 60 }
  const { app } = await testApp(db, {
    ...{ verify, now: Date.now, log: { access: logs.access, fault: onError } },
    onResponse: (line) => {
      perDay.count(line.client ?? '')
      traffic.count(line)
      logged.add(line)
    },
    limits: {
      rules: rulesOf({ general: unreached, quotas: { requests: unreachable, reports: null } }),
      ...{ counters: { record: quotaUses(db), shared: null }, monotonic: () => performance.now() },
    },
  })
  await app.ready()
  return app
}

/** Starts bare Fastify with the same bodies and schemas. */
async function startBare(read: (path: string) => Promise<object>) {
  const app = Fastify()
  const { declaration } = products
  const shape = representation(declaration)
  const params = Type.Object({ id: Type.Integer({ minimum: 1, maximum: 2_147_483_647 }) })
  const listed = listQuerySchema({ ...declaration, path: declaration.path })
  const row = await read('/products/5')
  const pages = new Map<number, object>()
  for (const limit of [20, 100]) pages.set(limit, await read(`/products?limit=${limit}`))
  app.get('/products/:id', { schema: { params, response: { 200: shape } } }, (_request, reply) => void reply.send(row))
  const schema = { querystring: listed, response: { 200: Type.Array(shape) } }
  app.get('/products', { schema }, ({ query }, reply) => void reply.send(pages.get((query as { limit: number }).limit)))
  await app.ready()
  return app
}

const sandbox = openSandbox()
const service = await startInProcess(sandbox.folder)
const bare = await startBare(async (url) => (await service.inject({ url, headers: fields })).json())
const ids = Array.from({ length: rows }, (_, at) => `/products/${1 + ((at * 7_919) % rows)}`)
const raw = Object.entries(fields).flat()
const cases: [title: string, paths: string[], raw: string[]][] = [
  ['GET /products/{id}', ids, raw],
  ['GET /products/{id} → 304', ids, [...raw, 'if-none-match', '"1"']],
  ['GET /products?limit=20', ['/products?limit=20'], raw],
  ['GET /products?limit=100', ['/products?limit=100'], raw],
]
for (const [title, paths, raw] of cases) {
  const lowest = { bare: Number.POSITIVE_INFINITY, service: Number.POSITIVE_INFINITY }
  for (let round = 0; round <= rounds; round++) {
    lowest.bare = Math.min(lowest.bare, await measure(bare.server, paths, raw))
    lowest.service = Math.min(lowest.service, await measure(service.server, paths, raw))
  }
  console.log(`${title.padEnd(26)} bare Fastify ${lowest.bare.toFixed(1)} µs, service ${lowest.service.toFixed(1)} µs`)
}
await sandbox.clear()
process.exit(0)
