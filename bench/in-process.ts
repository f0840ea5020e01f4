import Fastify from 'fastify'
import { Type } from 'typebox'
import { products } from '../src/catalog/products.ts'
import { responseClass } from '../src/http/server/raw-headers.ts'
import { listQuerySchema } from '../src/resources/list-parameters.ts'
import { representation } from '../src/resources/representation.ts'
import type { Database } from '../src/storage/database.ts'
import { authorization, cpuPerRequest, startInProcess } from './in-process-service.ts'
import { openSandbox } from './sandbox.ts'

/**
 * Measures the CPU time per request in one process, without a network, from the parsed request to the written response.
 * Other processes on the machine hardly affect it. Prints the lowest time of several rounds for bare Fastify and for
 * the service with all policies, limits, quotas, the access log and statistics.
 */
const [rounds, perRound, rows] = [9, 20_000, 2_000]
const fields = { host: 'localhost', 'x-forwarded-proto': 'https', authorization }

/** Adds products to a database. */
async function addProducts(db: Database): Promise<void> {
  const at = new Date(0).toISOString()
  await db.write(async (tx) => {
    for (let id = 1; id <= rows; id++) {
      const name = `Oak kettle ${1_000_000 + id}`
      const row = { name, nameKey: name.toLowerCase(), price: 12.5, revision: 1, createdAt: at, updatedAt: at }
      await tx.insertInto('products').values(row).execute()
    }
  })
}

/** Starts bare Fastify with the service's schemas and response bodies. */
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
const service = await startInProcess({ folder: sandbox.folder, scopes: ['products:write'], fill: addProducts })
const bare = await startBare(async (url) => (await service.inject({ url, headers: fields })).json())
const ids = Array.from({ length: rows }, (_, at) => `/products/${1 + ((at * 7_919) % rows)}`)
const raw = Object.entries(fields).flat()
const cases: [title: string, paths: string[], raw: string[], status: number][] = [
  ['GET /products/{id}', ids, raw, 200],
  ['GET /products/{id} → 304', ids, [...raw, 'if-none-match', '"1"'], 304],
  ['GET /products?limit=20', ['/products?limit=20'], raw, 200],
  ['GET /products?limit=100', ['/products?limit=100'], raw, 200],
]
for (const [title, paths, raw, status] of cases) {
  const requestAt = (at: number) => ({ method: 'GET' as const, path: paths[at % paths.length] as string, raw })
  const lowest = { bare: Number.POSITIVE_INFINITY, service: Number.POSITIVE_INFINITY }
  for (let round = 0; round <= rounds; round++) {
    // Bare Fastify ignores preconditions, so it always responds with 200.
    const ofBare = await cpuPerRequest(bare.server, { count: perRound, status: 200 }, requestAt)
    lowest.bare = Math.min(lowest.bare, ofBare)
    const ofService = await cpuPerRequest(service.server, { count: perRound, status, responseClass }, requestAt)
    lowest.service = Math.min(lowest.service, ofService)
  }
  console.log(`${title.padEnd(26)} bare Fastify ${lowest.bare.toFixed(1)} µs, service ${lowest.service.toFixed(1)} µs`)
}
await sandbox.clear()
process.exit(0)
