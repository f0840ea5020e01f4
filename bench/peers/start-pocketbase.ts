import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../../src/serving/listeners.ts'
import type { Bench } from '../bench.ts'
import { pinned, serverCore } from '../cpu-and-memory.ts'
import { expectResponse } from '../http.ts'
import { environment } from '../sandbox.ts'
import { runToEnd } from '../service.ts'
import type { Peer } from './peer.ts'
import type { Product } from './products.ts'

const superuser = { identity: 'bench@example.com', password: 'bench-4c81f0d27ae9' }
const records = '/api/collections/products/records'
const startLimitMs = 30_000

/** A collection with the product's fields, without rules: anyone may read and write it. */
const collection = {
  ...{ name: 'products', type: 'base', listRule: '', viewRule: '', createRule: '', updateRule: '' },
  fields: [
    { name: 'name', type: 'text', required: true, max: 200 },
    { name: 'price', type: 'number', min: 0 },
    { name: 'createdAt', type: 'autodate', onCreate: true },
    { name: 'updatedAt', type: 'autodate', onCreate: true, onUpdate: true },
  ],
}

/** PocketBase's ids are texts of 15 characters. */
const idOf = (id: number | string) => String(id).padStart(15, '0')

/** Starts PocketBase with its default settings on a collection of these products. */
export async function startPocketBase(
  { sandbox, pin }: Bench,
  products: Iterable<Product>,
  program: string,
): Promise<Peer> {
  const [port, dir] = [await freePort(), join(sandbox.folder, 'pocketbase')]
  const env = environment({})
  await runToEnd(sandbox, [program, 'superuser', 'upsert', superuser.identity, superuser.password, '--dir', dir], env)
  const command = [program, 'serve', '--http', `127.0.0.1:${port}`, '--dir', dir]
  const child = sandbox.start(pinned(pin, serverCore, command), { env, stdio: ['ignore', 'ignore', 'inherit'] })
  const peer: Peer = {
    ...{ name: 'reference', pid: child.pid as number, port, tls: false, created: 200 },
    list: (limit, after) =>
      `${records}?perPage=${limit}&skipTotal=1&sort=id&filter=${encodeURIComponent(`id>'${idOf(after)}'`)}`,
    translate,
    stop: () => sandbox.stop(child),
  }
  await untilHealthy(peer, () => child.exitCode !== null)
  await createCollection(peer)
  insertRecords(join(dir, 'data.db'), products)
  return peer
}

/** Without the token of the service, which PocketBase would try to verify. */
const translate = (request: string) =>
  request
    .replace(
      /^(\w+) \/products\/?(\d*)/,
      (_, method, id) => `${method === 'PUT' ? 'PATCH' : method} ${records}${id && `/${idOf(id)}`}`,
    )
    .replace(/^authorization: .*\r\n/m, '')

async function untilHealthy(peer: Peer, hasEnded: () => boolean): Promise<void> {
  const end = performance.now() + startLimitMs
  for (;;) {
    try {
      await expectResponse(peer, 200, { method: 'GET', path: '/api/health' })
      return
    } catch (error) {
      if (hasEnded() || performance.now() > end) throw new Error('PocketBase did not become ready', { cause: error })
      await sleep(50)
    }
  }
}

async function createCollection(peer: Peer): Promise<void> {
  const post = async (path: string, body: object, headers = {}) => {
    const json = { ...headers, 'content-type': 'application/json' }
    return (await expectResponse(peer, 200, { method: 'POST', path, headers: json, body: JSON.stringify(body) })).body
  }
  const { token } = JSON.parse(await post('/api/collections/_superusers/auth-with-password', superuser))
  await post('/api/collections', collection, { authorization: token })
}

/** Inserts the products directly, because a million requests would take minutes. */
function insertRecords(file: string, products: Iterable<Product>): void {
  const db = new DatabaseSync(file)
  db.exec('pragma busy_timeout = 10000; begin immediate')
  const insert = db.prepare('insert into products (id, name, price, createdAt, updatedAt) values (?, ?, ?, ?, ?)')
  const time = (text: string) => text.replace('T', ' ')
  for (const { id, name, price, createdAt, updatedAt } of products)
    insert.run(idOf(id), name, price, time(createdAt), time(updatedAt))
  db.exec('commit; pragma wal_checkpoint(truncate)')
  db.close()
}
