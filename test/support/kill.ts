import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import { Webhook } from 'standardwebhooks'
import { maxAttempts } from '../../src/reports/task-states.ts'
import type { Database } from '../../src/storage/database.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { openDatabase } from '../../src/storage/open.ts'
import type { EngineUnderTest } from './engines.ts'
import { eventually, type RealService, realService } from './service.ts'
import { unzip } from './zip.ts'

/** The number of kills; long runs set KILLS=50. */
const kills = Number(process.env.KILLS ?? 10)
const rows = 40_000
export const seed = Number(process.env.SEED ?? Date.now() % 100_000)

/** Returns a generator of reproducible numbers in [0, 1). */
export function sequence(start: number): () => number {
  let state = start
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296
    return state / 4_294_967_296
  }
}

/** Starts a receiver that responds to the first attempt for each event with 500, so that every event needs a retry. */
async function receiver() {
  const seen = new Map<string, { bodies: Set<string>; headers: Record<string, string>; tries: number }>()
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const id = String(request.headers['webhook-id'])
    const entry = seen.get(id) ?? { bodies: new Set(), headers: {}, tries: 0 }
    entry.bodies.add(Buffer.concat(chunks).toString())
    entry.headers = request.headers as Record<string, string>
    entry.tries++
    seen.set(id, entry)
    response.writeHead(entry.tries === 1 ? 500 : 204).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/hook`, seen, close: () => server.close() }
}

/** Opens and migrates a database, and adds this many products. */
export async function seedProducts(url: string, rows: number): Promise<Database> {
  const db = await openDatabase(url)
  await migrate(db)
  const at = new Date(0).toISOString()
  for (let from = 0; from < rows; from += 2_000) {
    const batch = Array.from({ length: 2_000 }, (_, n) => {
      const name = `product ${from + n}`
      return { name, nameKey: name, price: 1.5, revision: 1, createdAt: at, updatedAt: at }
    })
    await db.write((tx) => tx.insertInto('products').values(batch).execute())
  }
  return db
}

/** The ids of products and report tasks that the service acknowledged before it was killed. */
interface Ledger {
  products: number[]
  tasks: string[]
}

/**
 * Creates a product, requests a report, and kills the service at a random moment. With `mustAccept`, kills it only
 * after both responses.
 */
async function dieAtWork(
  service: RealService,
  ledger: Ledger,
  webhookUrl: string,
  random: () => number,
  mustAccept: boolean,
) {
  const accept = async () => {
    const product = await service.call('POST', '/products', { body: { name: 'kept', price: 1 } })
    if (product.status === 201) ledger.products.push(product.json().id)
    const format = random() < 0.5 ? 'csv' : 'xlsx'
    const body = { reportType: 'products', format, webhookUrl }
    const task = await service.call('POST', '/api/reports', { body })
    if (task.status === 202) ledger.tasks.push(task.json().taskId)
  }
  const accepting = accept()
  if (mustAccept) await accepting
  // A request that the kill interrupts is not acknowledged, so its failure is ignored.
  const cutOff = accepting.catch(() => {})
  await pause(30 + random() * 400)
  await service.kill('SIGKILL')
  await cutOff
}

/** Waits until no unfinished task is on its last attempt: another kill would fail it. */
const noLastAttempts = (db: Database) =>
  eventually('no task is at its last attempt', async () => {
    const found = await db.read
      .selectFrom('tasks')
      .select('id')
      .where('status', 'in', ['pending', 'in_progress'])
      .where('attempts', '>=', maxAttempts - 1)
      .execute()
    return found.length === 0
  })

/**
 * Kills the service (kill -9) at random moments. Asserts that all acknowledged work is eventually completed and delivered
 * (F-KILL, P1, P2, P4, P5).
 */
export function killSuite(engine: EngineUnderTest): void {
  describe(`kill -9 at ${kills} random moments (seed ${seed})`, () => {
    it('loses no accepted work', { timeout: 150_000 + kills * 5_000 }, async () => {
      const place = await engine.place()
      const db = await seedProducts(place.url, rows)
      const hook = await receiver()
      const service = await realService({ DATABASE_URL: place.url, PLINTH_WEBHOOK_SCHEDULE: '0,1,1,1,2,2,2,2,2,2' })
      try {
        const random = sequence(seed)
        const ledger: Ledger = { products: [], tasks: [] }
        for (let life = 0; life < kills; life++) {
          await service.start()
          await noLastAttempts(db)
          await dieAtWork(service, ledger, hook.url, random, life % 2 === 0)
        }
        await service.start()
        await check(service, db, ledger, hook.seen)
      } finally {
        await service.remove()
        hook.close()
        await db.close()
        await place.remove()
      }
    })
  })
}

type Seen = Awaited<ReturnType<typeof receiver>>['seen']

async function check(service: RealService, db: Database, ledger: Ledger, seen: Seen): Promise<void> {
  assert.ok(ledger.tasks.length >= kills / 2, `only ${ledger.tasks.length} tasks were accepted before the kills`)
  for (const id of ledger.products) assert.equal((await service.call('GET', `/products/${id}`)).status, 200)
  for (const id of ledger.tasks) await completed(service, id)
  const { secret } = (await service.call('GET', '/api/webhooks/secret')).json()
  for (const id of ledger.tasks) await checkEventOf(db, seen, secret, id)
  if (db.engine.name === 'sqlite') {
    const { rows } = await sql<{ integrity_check: string }>`pragma integrity_check`.execute(db.read)
    assert.equal(Object.values(rows[0] ?? {})[0], 'ok')
  }
}

/** Asserts that the task completes, its file matches the digest, and the file contains every row. */
async function completed(service: RealService, id: string): Promise<void> {
  const task = await eventually(`task ${id} is completed`, async () => {
    const task = (await service.call('GET', `/api/reports/${id}/status`)).json()
    assert.notEqual(task.status, 'failed', JSON.stringify(task))
    return task.status === 'completed' && task
  })
  assert.ok(task.rowCount >= rows)
  const file = await service.call('GET', `/api/reports/${id}/download`)
  assert.equal(file.status, 200)
  const digest = createHash('sha256').update(file.bytes).digest('base64')
  assert.equal(file.headers['repr-digest'], `sha-256=:${digest}:`)
  if (task.format === 'csv') assert.equal(file.text.split('\r\n').length, task.rowCount + 2)
  else assert.equal(sheetRows(file.bytes), task.rowCount + 1)
}

const sheetRows = (workbook: Buffer): number =>
  unzip(workbook).get('xl/worksheets/sheet1.xml')?.toString().match(/<row>/g)?.length ?? 0

/** Asserts that the task has exactly one event, with a valid signature and the same bytes in every attempt. */
async function checkEventOf(db: Database, seen: Seen, secret: string, taskId: string): Promise<void> {
  const events = await db.read.selectFrom('events').select('id').where('body', 'like', `%${taskId}%`).execute()
  assert.equal(events.length, 1)
  const { id } = events[0] as { id: string }
  const entry = await eventually(`event ${id} arrives`, async () => {
    const found = seen.get(id)
    return found && found.tries >= 2 && found
  })
  assert.equal(entry.bodies.size, 1)
  const [body] = entry.bodies
  new Webhook(secret).verify(body as string, entry.headers)
}
