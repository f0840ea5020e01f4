import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../src/serving/listeners.ts'
import type { Bench, Measurement } from './bench.ts'
import { pinned, serverCore } from './cpu-and-memory.ts'
import { expectResponse, requestText, type Target } from './http.ts'
import { distinct, measure, requestsPerWrite, rows, shuffledIds } from './requests.ts'
import type { Row } from './results.ts'
import { environment, startReady } from './sandbox.ts'
import { nameOf, priceOf, runToEnd } from './service.ts'

/** Another back end with the same products. */
interface Peer {
  name: string
  title: string
  /** Starts the peer with products 1 to `options.rows`; throws if something is missing, and says what. */
  start: (bench: Bench) => Promise<Target & { stop: () => Promise<void> }>
  /** The raw requests that correspond to the service's. */
  read: (id: number) => string
  list: (limit: number, page: number) => string
  create: (body: string) => string
  replace: (id: number, body: string) => string
  /** The status of a response to `create`. */
  created: number
}

const folder = resolve(import.meta.dirname, 'peers')
const json = { 'content-type': 'application/json' }
const bodyOf = (at: number) => JSON.stringify({ name: nameOf(2_000_000 + at), price: priceOf(at) })

/** The requests and the database of the peers that run on Node.js. */
const onNode = (name: string, title: string, program: string, packages: string | null): Peer => ({
  ...{ name, title, created: 201 },
  start: async ({ sandbox, pin, options: { rows } }) => {
    if (packages !== null && !existsSync(join(folder, packages)))
      throw new Error(`${title} is not installed; run: npm ci --prefix bench/peers`)
    const file = join(sandbox.folder, `${name}.db`)
    fill(file, rows)
    const port = await freePort()
    const command = pinned(pin, serverCore, [process.execPath, join(folder, program)])
    const child = await startReady(sandbox, command, environment({ PEER_PORT: String(port), PEER_DATABASE: file }))
    return { name: 'reference', pid: child.pid as number, port, tls: false, stop: () => sandbox.stop(child) }
  },
  read: (id) => requestText('GET', `/products/${id}`, {}),
  list: (limit, page) => requestText('GET', `/products?limit=${limit}&after=${limit * page}`, {}),
  create: (body) => requestText('POST', '/products', json, body),
  replace: (id, body) => requestText('PUT', `/products/${id}`, json, body),
})

function fill(file: string, count: number): void {
  const db = new DatabaseSync(file)
  db.exec(`pragma journal_mode = wal;
    create table products (id integer primary key autoincrement, name text not null, price real not null,
      revision integer not null, created_at text not null, updated_at text not null);
    pragma synchronous = off; begin`)
  const insert = db.prepare(
    'insert into products (name, price, revision, created_at, updated_at) values (?, ?, 1, ?, ?)',
  )
  const at = '2026-01-01T00:00:00.000Z'
  for (let id = 1; id <= count; id++) insert.run(nameOf(id), priceOf(id), at, at)
  db.exec('commit; pragma wal_checkpoint(truncate)')
  db.close()
}

const collection = '/api/collections/products/records'
const recordId = (id: number) => String(id).padStart(15, '0')
const superuser = { identity: 'bench@example.com', password: 'bench-4c81f0d27ae9' }

/** PocketBase with a collection that everyone may read and write, so that it authorizes no requests. */
const pocketBase: Peer = {
  ...{ name: 'pocketbase', title: 'PocketBase', created: 200 },
  start: async ({ sandbox, pin, options: { rows } }) => {
    const program = process.env.POCKETBASE
    if (!program) throw new Error('Set POCKETBASE to the path of the PocketBase program')
    const dataDir = join(sandbox.folder, 'pocketbase')
    const data = ['--dir', dataDir]
    const { identity, password } = superuser
    await runToEnd(sandbox, [program, 'superuser', 'upsert', identity, password, ...data], environment({}))
    const port = await freePort()
    const command = pinned(pin, serverCore, [program, 'serve', `--http=127.0.0.1:${port}`, ...data])
    const child = sandbox.start(command, { env: environment({}), stdio: ['ignore', 'ignore', 'inherit'] })
    const target = { name: 'reference' as const, pid: child.pid as number, port, tls: false }
    await createCollection(target)
    fillCollection(join(dataDir, 'data.db'), rows)
    return { ...target, stop: () => sandbox.stop(child) }
  },
  read: (id) => requestText('GET', `${collection}/${recordId(id)}`, {}),
  list: (limit, page) => requestText('GET', `${collection}?perPage=${limit}&page=${page + 1}&skipTotal=1`, {}),
  create: (body) => requestText('POST', collection, json, body),
  replace: (id, body) => requestText('PATCH', `${collection}/${recordId(id)}`, json, body),
}

async function createCollection(target: Target): Promise<void> {
  const login = { method: 'POST', path: '/api/collections/_superusers/auth-with-password', headers: json }
  const request = { ...login, body: JSON.stringify(superuser) }
  const attempt = () => expectResponse(target, 200, request).catch(() => undefined)
  let session = await attempt()
  for (let waited = 0; session === undefined && waited < 100; waited++) {
    await sleep(100)
    session = await attempt()
  }
  if (session === undefined) throw new Error('PocketBase did not start within 10 s')
  const { token } = JSON.parse(session.body) as { token: string }
  const fields = [
    { name: 'name', type: 'text', required: true, max: 200 },
    { name: 'price', type: 'number', min: 0 },
    { name: 'created', type: 'autodate', onCreate: true },
    { name: 'updated', type: 'autodate', onCreate: true, onUpdate: true },
  ]
  const rules = { listRule: '', viewRule: '', createRule: '', updateRule: '' }
  const body = JSON.stringify({ name: 'products', type: 'base', fields, ...rules })
  const headers = { ...json, authorization: token }
  await expectResponse(target, 200, { method: 'POST', path: '/api/collections', headers, body })
}

function fillCollection(file: string, count: number): void {
  const db = new DatabaseSync(file, { timeout: 5_000 })
  db.exec('pragma synchronous = off; begin')
  const insert = db.prepare('insert into products (id, name, price, created, updated) values (?, ?, ?, ?, ?)')
  const at = '2026-01-01 00:00:00.000Z'
  for (let id = 1; id <= count; id++) insert.run(recordId(id), nameOf(id), priceOf(id), at, at)
  db.exec('commit')
  db.close()
}

const peers: Peer[] = [
  onNode('fastify', 'Fastify + node:sqlite', 'fastify-sqlite.ts', null),
  onNode('nest', 'NestJS + better-sqlite3', 'nest.js', 'node_modules/@nestjs/core'),
  pocketBase,
]

/** The rows that are compared with each peer, and the requests of the peer. */
const compared: Record<string, (peer: Peer, count: number) => string[]> = {
  'get-random': ({ read }, count) => shuffledIds(count).map(read),
  'list-20': ({ list }, count) => listed(count, 20, list),
  'list-100': ({ list }, count) => listed(count, 100, list),
  mixed: ({ read, replace }, count) =>
    shuffledIds(count).map((id, at) => (at % requestsPerWrite > 0 ? read(id) : replace(id, bodyOf(at)))),
  create: ({ create }) => Array.from({ length: distinct }, (_, at) => create(bodyOf(at))),
}

const listed = (count: number, limit: number, list: Peer['list']) =>
  Array.from({ length: Math.min(distinct, Math.ceil(count / limit)) }, (_, page) => list(limit, page))

/** Compares the service with other back ends; each measurement has one result per kind of request. */
export const peerMeasurements: Measurement[] = peers.map((peer) => ({
  name: `peer-${peer.name}`,
  isOptional: true,
  measure: async (bench) => {
    const reference = await peer.start(bench)
    const results: Row[] = []
    for (const row of rows.filter(({ name }) => name in compared)) {
      const [name, title] = [`${peer.name}-${row.name}`, `${row.title} ÷ ${peer.title}`]
      const referenceRequests = (compared[row.name] as (typeof compared)[string])(peer, bench.options.rows)
      const referenceStatus = row.name === 'create' ? peer.created : 200
      const against = { ...row, name, title, floor: 1, referenceStatus, referenceRequests }
      results.push(await measure({ ...bench, reference, useWrk: true }, against, peer.title))
    }
    await reference.stop()
    return results
  },
}))
