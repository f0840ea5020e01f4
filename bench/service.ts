import { closeSync, openSync, readFileSync, readSync, truncateSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { freePort } from '../src/serving/listeners.ts'
import { withoutLimits } from '../test/support/limits.ts'
import type { Options } from './bench.ts'
import { pinned, serverCore } from './cpu-and-memory.ts'
import { expectResponse, send, type Target } from './http.ts'
import { environment, profiling, type Sandbox, startReady } from './sandbox.ts'

/** The service under test and its files. */
export interface Service extends Target {
  databaseFile: string
  /** Private key and certificates of the HTTPS server. */
  pemFile: string
  /** Requests an access token with the definition's scopes. */
  token: () => Promise<string>
  /** Truncates the access log, which would otherwise fill the disk; throws if no request was logged. */
  trimLog: () => void
  stop: () => Promise<void>
  /** How long the start took until `/readyz` responded with 200. */
  readyMs: number
}

const program = resolve(import.meta.dirname, '../bin/plinth.js')
export const client = { id: 'bench', secret: 'bench-4c81f0d27ae95b3668e02f71d9b4' }
/** The program that runs the references and the webhook receiver. */
export const referenceProgram = resolve(import.meta.dirname, 'references.ts')
const startLimitMs = 30_000

/** Limits too high to reach: requests are counted and responses have the rate-limit fields, but no request is rejected. */
export const unreachableLimits = {
  ...Object.fromEntries(Object.keys(withoutLimits).map((name) => [name, '999999999/60'])),
  ...{
    PLINTH_THROTTLE: '999999999/1:999999999',
    PLINTH_QUOTA_REQUESTS: '999999999',
    PLINTH_QUOTA_REPORTS: '999999999',
  },
}

/** Options for starting a service that differs from the default service. */
export interface ServiceOptions {
  /** Name of the data folder and of the log. */
  name?: string
  limits?: Record<string, string>
  /** Number of serving threads; default 1. */
  threads?: number
  /** Node.js flags that replace those in the first line of bin/plinth.js. */
  flags?: readonly string[]
  /** A database on a different engine, and the function that fills it. */
  database?: { url: string; fill: (rows: number) => void }
  /** Replaces the default definition. */
  definition?: OwnDefinition
}

/** A definition file, the function that fills its tables, and the scopes and the path prefix that requests use. */
export interface OwnDefinition {
  file: string
  fill: (databaseFile: string, rows: number) => void
  /** The scopes of the access tokens. */
  scopes: string
  /** The prefix of all request paths. */
  path: string
}

/** Migrates and fills a database, and starts `plinth serve` on it in production mode, by default without limits. */
export async function startService(
  sandbox: Sandbox,
  { rows, tls, profile }: Options,
  pin: boolean,
  { name = 'data', limits = withoutLimits, threads = 1, flags, database, definition = products }: ServiceOptions = {},
): Promise<Service> {
  const dataDir = join(sandbox.folder, name)
  const port = await freePort()
  const env = environment({
    ...settings(dataDir, port, tls),
    ...limits,
    PLINTH_THREADS: String(threads),
    ...(database && { DATABASE_URL: database.url }),
    ...(definition.file && { PLINTH_DEFINITION: definition.file }),
  })
  const databaseFile = join(dataDir, 'plinth.db')
  await runToEnd(sandbox, [program, 'migrate'], env)
  database ? database.fill(rows) : definition.fill(databaseFile, rows)
  const logFile = join(sandbox.folder, `${name}.log`)
  const log = openSync(logFile, 'a')
  // Without flags, runs the program itself, so that the Node.js flags in its first line take effect.
  const interpreter = flags ? ['env', 'MALLOC_ARENA_MAX=2', process.execPath, ...flags] : []
  const command = pinned(pin, serverCore, [...interpreter, program, 'serve'])
  const startedAt = performance.now()
  const child = sandbox.start(command, {
    env: { ...env, ...(profile && profiling('service')) },
    stdio: ['ignore', log, log],
  })
  const service = {
    ...{ name: 'service' as const, pid: child.pid as number, port, tls, databaseFile },
    pemFile: join(dataDir, 'certificates/server.pem'),
    token: () => newToken({ port, tls }, definition.scopes),
    trimLog: () => trim(logFile, definition.path),
    stop: () => sandbox.stop(child),
  }
  await untilReady(service, () => child.exitCode !== null, logFile)
  return { ...service, readyMs: performance.now() - startedAt }
}

const settings = (dataDir: string, port: number, tls: boolean): Record<string, string> => ({
  PLINTH_DATA_DIR: dataDir,
  PLINTH_HOST: '127.0.0.1',
  PLINTH_PORT: String(port),
  PLINTH_DRAIN: '0',
  // The load generator opens all its connections from a single address.
  PLINTH_MAX_CONNECTIONS_PER_ADDRESS: '2000',
  PLINTH_BOOTSTRAP_CLIENT_ID: client.id,
  PLINTH_BOOTSTRAP_CLIENT_SECRET: client.secret,
  ...(tls ? { PLINTH_HTTP_PORT: '0' } : { PLINTH_TLS: 'off', PLINTH_TRUSTED_PROXIES: '127.0.0.1' }),
})

/** Runs a command until it exits; throws if it fails. */
export async function runToEnd(sandbox: Sandbox, command: string[], env: NodeJS.ProcessEnv): Promise<void> {
  const child = sandbox.start(command, { env, stdio: ['ignore', 'ignore', 'inherit'] })
  const code = await new Promise((ended) => child.once('exit', ended))
  if (code !== 0) throw new Error(`${command.join(' ')} exited with ${code}`)
}

async function untilReady(target: Target, hasEnded: () => boolean, logFile: string): Promise<void> {
  const end = performance.now() + startLimitMs
  for (;;) {
    const response = await send(target, { method: 'GET', path: '/readyz' }).catch(() => null)
    response?.resume()
    if (response?.statusCode === 200) return
    if (hasEnded() || performance.now() > end) {
      throw new Error(`The service did not become ready:\n${readFileSync(logFile, 'utf8')}`)
    }
    await sleep(10)
  }
}

async function newToken(target: Pick<Target, 'port' | 'tls'>, scopes: string): Promise<string> {
  const credentials = Buffer.from(`${client.id}:${client.secret}`).toString('base64')
  const headers = { authorization: `Basic ${credentials}`, 'content-type': 'application/x-www-form-urlencoded' }
  const form = encodeURI(`grant_type=client_credentials&scope=${scopes}`)
  const { body } = await expectResponse(target, 200, { method: 'POST', path: '/oauth/token', headers, body: form })
  return (JSON.parse(body) as { access_token: string }).access_token
}

function trim(file: string, path: string): void {
  const start = Buffer.alloc(65_536)
  const log = openSync(file, 'r')
  readSync(log, start)
  closeSync(log)
  if (!start.includes(`"path":"${path}`)) throw new Error('The service wrote no access log')
  truncateSync(file)
}

/** The service's response bodies, which the reference also sends. */
export interface Samples {
  read: string
  /** Lists of products, by their `limit`. */
  pages: Record<number, string>
  created: string
}

/** Reads the first page of the products for each limit. */
export async function readPages(target: Target, headers: Record<string, string>, limits: readonly number[]) {
  const read = async (limit: number): Promise<[number, string]> => {
    const path = `/products?limit=${limit}`
    return [limit, (await expectResponse(target, 200, { method: 'GET', path, headers })).body]
  }
  return Object.fromEntries(await Promise.all(limits.map(read)))
}

/** Starts bare Fastify and checks that it sends the samples byte for byte. */
export async function startReference(
  sandbox: Sandbox,
  { tls, profile }: Options,
  pin: boolean,
  service: Service,
  { read, pages, created }: Samples,
): Promise<Target> {
  const port = await freePort()
  const lists = Object.entries(pages).map(([limit, page]) => `"${limit}":${page}`)
  const answers = `{"read":${read},"pages":{${lists.join()}},"created":${created}}`
  const settings = { BARE_PORT: String(port), BARE_ANSWERS: answers }
  const env = environment({ ...settings, ...(tls && { BARE_PEM: service.pemFile }) })
  const command = pinned(pin, serverCore, [process.execPath, referenceProgram, 'fastify'])
  const child = await startReady(sandbox, command, { ...env, ...(profile && profiling('reference')) })
  const reference = { name: 'reference' as const, pid: child.pid as number, port, tls }
  const json = { 'content-type': 'application/json' }
  const body = '{"name":"x","price":1.15}'
  const readBack = await expectResponse(reference, 200, { method: 'GET', path: '/products/1' })
  const createdBack = await expectResponse(reference, 201, { method: 'POST', path: '/products', headers: json, body })
  const pagesBack = await readPages(reference, {}, Object.keys(pages).map(Number))
  if (readBack.body !== read || createdBack.body !== created || !isDeepStrictEqual(pagesBack, pages))
    throw new Error('The reference sends different bytes')
  return reference
}

const adjectives = ['Brass', 'Copper', 'Folding', 'Heavy', 'Light', 'Oak', 'Steel', 'Woven']
const nouns = ['anvil', 'basket', 'bench', 'clock', 'hinge', 'kettle', 'lantern', 'vise']
const firstMs = Date.UTC(2024, 0, 1)

/** Returns a unique name; one in ten contains a comma. */
export const nameOf = (id: number): string =>
  `${adjectives[id % 8]}${id % 10 === 0 ? ', old' : ''} ${nouns[(id >> 3) % 8]} ${String(id).padStart(7, '0')}`

export const priceOf = (id: number): number => (((id * 7_919) % 90_000) + 10_001) / 100

/** Generates the values of products 1 to `count`. */
export function* productsUpTo(count: number) {
  for (let id = 1; id <= count; id++) {
    const at = new Date(firstMs + id * 1_000).toISOString()
    yield { id, name: nameOf(id), price: priceOf(id), createdAt: at, updatedAt: at }
  }
}

/** Inserts products 1 to `count` into a migrated, unused database file. */
export function insertProducts(file: string, count: number): void {
  const db = new DatabaseSync(file)
  db.exec('pragma synchronous = off; pragma cache_size = -500000; begin')
  const insert = db.prepare(
    'insert into products (name, name_key, price, revision, created_at, updated_at) values (?, ?, ?, 1, ?, ?)',
  )
  for (const { name, price, createdAt, updatedAt } of productsUpTo(count))
    insert.run(name, name.toLowerCase(), price, createdAt, updatedAt)
  db.exec('commit; pragma wal_checkpoint(truncate)')
  db.close()
}

/** The default definition. */
const products: OwnDefinition = {
  file: '',
  fill: insertProducts,
  scopes: 'products:write users:read reports:write reports:read webhooks:write admin',
  path: '/products',
}

/** Returns the number of products in a database file. */
export const countProducts = (file: string): number => numberIn(file, 'select count(*) as number from products')

/** Returns how many times products were created or changed. */
export const countRevisions = (file: string): number => numberIn(file, 'select sum(revision) as number from products')

function numberIn(file: string, query: string): number {
  const db = new DatabaseSync(file, { readOnly: true })
  const { number } = db.prepare(query).get() as { number: number }
  db.close()
  return number
}
