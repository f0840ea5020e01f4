import { generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createRequire } from 'node:module'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { text } from 'node:stream/consumers'

/**
 * The reference programs of the benchmarks, and the webhook receiver. Each runs in its own process (`node references.ts
 * <name>`) and loads only the modules that it needs.
 */
const programs: Readonly<Record<string, () => Promise<void>>> = {
  fastify: bareFastify,
  'one-route': oneRoute,
  'oidc-provider': bareProvider,
  exceljs: excelWriter,
  undici: bareUndici,
  'webhook-receiver': webhookReceiver,
}
function ready(): void {
  process.send?.('ready')
  process.on('SIGTERM', () => process.exit(0))
}

/**
 * Runs Fastify without plugins. Serializes constant bodies of the same size as the service's, using the service's schemas.
 * Environment: BARE_PORT, BARE_ANSWERS (JSON `{ read, pages, created }`) and, for HTTPS, BARE_PEM, a file with the private
 * key and the certificates.
 */
async function bareFastify(): Promise<void> {
  const { default: Fastify } = await import('fastify')
  const { Type } = await import('typebox')
  const { products } = await import('../src/catalog/products.ts')
  const { listQuerySchema } = await import('../src/resources/list-parameters.ts')
  const { representation } = await import('../src/resources/representation.ts')
  const { BARE_PORT, BARE_ANSWERS = '', BARE_PEM } = process.env
  const { read, pages, created } = JSON.parse(BARE_ANSWERS) as Record<'read' | 'created', object> & {
    pages: Record<number, object[]>
  }
  const pem = BARE_PEM && readFileSync(BARE_PEM)

  const { declaration } = products
  const shape = representation(declaration)
  const params = Type.Object({ id: Type.Integer({ minimum: 1, maximum: 2_147_483_647 }) })
  const querystring = Type.Object({ fields: Type.Optional(Type.String()) })
  const listed = listQuerySchema({ ...declaration, path: declaration.path })

  const app = Fastify({ https: pem ? { key: pem, cert: pem, minVersion: 'TLSv1.2' } : null })
  // The handlers are not async, because async handlers would be slower.
  app.get('/products/:id', { schema: { params, querystring, response: { 200: shape } } }, (_request, reply) => {
    reply.send(read)
  })
  app.get(
    '/products',
    { schema: { querystring: listed, response: { 200: Type.Array(shape) } } },
    ({ query }, reply) => {
      reply.send(pages[(query as { limit: number }).limit])
    },
  )
  app.put(
    '/products/:id',
    { schema: { params, body: declaration.body, response: { 200: shape } } },
    (_request, reply) => {
      reply.send(read)
    },
  )
  app.post('/products', { schema: { body: declaration.body, response: { 201: shape } } }, (_request, reply) => {
    reply.code(201).send(created)
  })
  await app.listen({ host: '127.0.0.1', port: Number(BARE_PORT) })
  ready()
}

/** Runs Fastify with one route, and loads nothing else. Environment: BARE_PORT. */
async function oneRoute(): Promise<void> {
  const { default: Fastify } = await import('fastify')
  const app = Fastify()
  app.get('/readyz', (_request, reply) => {
    reply.send('ok')
  })
  await app.listen({ host: '127.0.0.1', port: Number(process.env.BARE_PORT) })
  ready()
}

/**
 * Runs `oidc-provider` with its in-memory adapter and a signing key of the same size as the service's. Environment:
 * BARE_PORT, BARE_BITS (RSA key size), BARE_CLIENT and BARE_SECRET.
 */
async function bareProvider(): Promise<void> {
  const { default: Provider } = await import('oidc-provider')
  const { BARE_PORT = '', BARE_BITS = '', BARE_CLIENT = '', BARE_SECRET = '' } = process.env
  const issuer = `https://localhost:${BARE_PORT}`
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: Number(BARE_BITS) })
  const scope = 'products:write reports:read'
  const provider = new Provider(issuer, {
    clients: [
      {
        ...{ client_id: BARE_CLIENT, client_secret: BARE_SECRET, scope },
        ...{ grant_types: ['client_credentials'], response_types: [], redirect_uris: [] },
      },
    ],
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), alg: 'RS256', use: 'sig' }] },
    scopes: scope.split(' '),
    routes: { token: '/oauth/token' },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => issuer,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          audience: issuer,
          scope,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  })
  provider.proxy = true
  createHttpServer(provider.callback()).listen(Number(BARE_PORT), '127.0.0.1', ready)
}

interface Worksheet {
  addRow: (cells: unknown[]) => { commit: () => void }
  commit: () => void
}
interface Workbook {
  addWorksheet: (name: string) => Worksheet
  commit: () => Promise<void>
}

/** Runs the exceljs streaming writer, one page of rows at a time. Additional arguments: the database and the output file. */
async function excelWriter(): Promise<void> {
  const [, , , databaseFile = '', filename = ''] = process.argv
  const load = createRequire(join(process.env.BENCH_EXCELJS ?? '', 'package.json'))
  const exceljs = load('./') as { stream: { xlsx: { WorkbookWriter: new (options: object) => Workbook } } }
  const workbook = new exceljs.stream.xlsx.WorkbookWriter({ filename, useStyles: true, useSharedStrings: false })
  const sheet = workbook.addWorksheet('products')
  const db = new DatabaseSync(databaseFile, { readOnly: true })
  const page = db.prepare(
    'select id, name, price, created_at, updated_at from products where id > ? order by id limit 1000',
  )
  page.setReturnArrays(true)
  sheet.addRow(['id', 'name', 'price', 'createdAt', 'updatedAt']).commit()
  for (let after = 0; ; ) {
    const rows = page.all(after) as unknown as [number, string, number, string, string][]
    for (const [id, name, price, created, updated] of rows) {
      sheet.addRow([id, name, price, new Date(created), new Date(updated)]).commit()
    }
    if (rows.length < 1_000) break
    after = rows.at(-1)?.[0] ?? 0
    // Yields to the event loop, so that it compresses and writes the committed rows.
    await new Promise((resolve) => setImmediate(resolve))
  }
  sheet.commit()
  await workbook.commit()
}

/**
 * Posts signed calls in a loop, one at a time per connection, and records nothing. Reads `{ connections, calls: [{ url,
 * headers, body }], count }`. Writes `{ perSecond, serverUs }`, the rate and the CPU time per call in µs, both without
 * the first tenth of the calls.
 */
async function bareUndici(): Promise<void> {
  const { Agent, request } = await import('undici')
  const { connections, calls, count } = JSON.parse(await text(process.stdin)) as {
    connections: number
    calls: { url: string; headers: Record<string, string>; body: string }[]
    count: number
  }
  const dispatcher = new Agent({ connections })
  const prepared = calls.map((call) => ({ ...call, body: Buffer.from(call.body) }))
  const warm = Math.floor(count / 10)
  let sent = 0
  let done = 0
  let startedMs = 0
  let before = process.cpuUsage()

  const post = async (): Promise<void> => {
    while (sent < count) {
      const { url, headers, body } = prepared[sent++ % prepared.length] as (typeof prepared)[number]
      const response = await request(url, { method: 'POST', headers, body, dispatcher })
      await response.body.dump()
      if (response.statusCode !== 204) throw new Error(`The receiver returned ${response.statusCode}`)
      if (++done !== warm) continue
      startedMs = performance.now()
      before = process.cpuUsage()
    }
  }
  await Promise.all(Array.from({ length: connections }, post))
  const perSecond = ((count - warm) * 1_000) / (performance.now() - startedMs)
  const { user, system } = process.cpuUsage(before)
  process.stdout.write(JSON.stringify({ perSecond, serverUs: (user + system) / (count - warm) }))
  await dispatcher.close()
}

/**
 * Runs a webhook receiver that is too simple to be the bottleneck: it reads each request completely and responds with
 * 204. Environment: RECEIVER_PORT.
 */
async function webhookReceiver(): Promise<void> {
  createServer(serve).listen(Number(process.env.RECEIVER_PORT), '127.0.0.1', ready)
}

const noContent = Buffer.from('HTTP/1.1 204 No Content\r\n\r\n')
const headEnd = Buffer.from('\r\n\r\n')

function serve(socket: Socket): void {
  let pending: Buffer = Buffer.alloc(0)
  socket.setNoDelay(true).on('error', () => socket.destroy())
  socket.on('data', (chunk) => {
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
    for (let length = requestLength(pending); length > 0; length = requestLength(pending)) {
      pending = pending.subarray(length)
      socket.write(noContent)
    }
  })
}

/** Returns the length of the first request, or 0 while it is incomplete. */
function requestLength(bytes: Buffer): number {
  const head = bytes.indexOf(headEnd)
  if (head < 0) return 0
  const length = head + 4 + Number(/\r\ncontent-length: (\d+)/i.exec(bytes.toString('latin1', 0, head))?.[1])
  return length <= bytes.length ? length : 0
}

const [, , name = ''] = process.argv
await programs[name]?.()
