import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Database } from '../../src/storage/database.ts'
import { openDatabase } from '../../src/storage/open.ts'
import type { EngineUnderTest } from './engines.ts'
import { seed, sequence } from './kill.ts'
import { type Answer, eventually, type RealService, realService } from './service.ts'

const kills = 6
const clients = 4

/** A request with an idempotency key, and its response if one arrived before the kill. */
interface Operation {
  path: string
  key: string
  body: object
  answer?: Answer
}

const request = (path: string, key: string): Operation => {
  const bodies: Record<string, object> = {
    '/users': { name: key, email: `${key}@example.com` },
    '/products': { name: key, price: 1 },
    '/api/reports': { reportType: 'books', format: 'csv' },
    '/api/webhooks': { event: '*', callbackUrl: `http://127.0.0.1:9/${key}` },
  }
  return { path, key, body: bodies[path] as object }
}
const paths = ['/users', '/products', '/api/reports', '/api/webhooks']
/** Stays below the limit of webhooks per account. */
const maxWebhooks = 90

/** Returns a function that selects the path of each request in a run, round-robin. */
function turns() {
  let webhooks = 0
  return (turn: number): string => {
    const path = paths[turn % paths.length] as string
    if (path === '/api/webhooks') webhooks += 1
    return path === '/api/webhooks' && webhooks > maxWebhooks ? '/products' : path
  }
}

const send = (service: RealService, { path, key, body }: Operation) =>
  service.call('POST', path, { body, headers: { 'idempotency-key': key } })

/**
 * Runs the service once. Clients send one request after another, until the service is killed while requests are in
 * flight.
 */
async function runUntilKilled(
  service: RealService,
  life: number,
  random: () => number,
  pathOf: ReturnType<typeof turns>,
): Promise<Operation[]> {
  await service.start()
  const operations: Operation[] = []
  let alive = true
  let answers = 0
  const client = async (number: number) => {
    for (let n = 0; alive; n++) {
      const operation = request(pathOf(n + number), `k${life}-${number}-${n}`)
      operations.push(operation)
      // After a disconnect, the outcome of the request is unknown. Its idempotency key makes it safe to repeat.
      const answer = await send(service, operation).catch(() => undefined)
      if (!answer) return
      operation.answer = answer
      answers += 1
    }
  }
  const running = Array.from({ length: clients }, (_, number) => client(number))
  // Waits for responses rather than for a fixed time, because a busy machine may be slow.
  const enough = 4 + Math.floor(random() * 40)
  await eventually(`${enough} answers`, async () => answers >= enough)
  await pause(random() * 20)
  const killed = service.kill('SIGKILL')
  alive = false
  await Promise.all([killed, ...running])
  return operations
}

/**
 * Kills the service (kill -9) at random moments during POSTs. Asserts that a POST repeated with the same key takes effect
 * exactly once (P8, T-RACE-03).
 */
export function killRepeatsSuite(engine: EngineUnderTest): void {
  describe(`kill -9 at ${kills} random moments during POSTs with keys (seed ${seed})`, () => {
    it('201 or 202 for repeated requests, which create one resource per key', { timeout: 300_000 }, async () => {
      const place = await engine.place()
      const service = await realService({ DATABASE_URL: place.url, PLINTH_ROLES: 'api,auth' })
      try {
        const random = sequence(seed)
        const pathOf = turns()
        const operations: Operation[] = []
        for (let life = 0; life < kills; life++)
          operations.push(...(await runUntilKilled(service, life, random, pathOf)))
        await service.start()
        for (const operation of operations) await repeated(service, operation)
        const db = await openDatabase(place.url)
        await counted(db, operations).finally(db.close)
      } finally {
        await service.remove()
        await place.remove()
      }
    })
  })
}

/** Repeats a request; asserts that it succeeds, with the same response as before the kill if there was one. */
async function repeated(service: RealService, operation: Operation): Promise<void> {
  const answer = await send(service, operation)
  assert.ok([201, 202].includes(answer.status), `${operation.key}: ${answer.status} ${answer.text}`)
  if (operation.answer) {
    assert.equal(answer.headers['idempotent-replayed'], 'true')
    assert.deepEqual([answer.status, answer.text], [operation.answer.status, operation.answer.text])
    for (const name of ['location', 'etag']) assert.equal(answer.headers[name], operation.answer.headers[name])
  }
  const third = await send(service, operation)
  assert.equal(third.headers['idempotent-replayed'], 'true')
  assert.equal(third.text, answer.text)
}

async function counted(db: Database, operations: Operation[]): Promise<void> {
  const asked = (path: string) => operations.filter((operation) => operation.path === path).length
  assert.ok(operations.length > kills * clients, `only ${operations.length} requests were sent`)
  assert.ok(
    operations.some(({ answer }) => answer === undefined),
    'no request was cut off',
  )
  const tables = { users: '/users', products: '/products', tasks: '/api/reports', webhooks: '/api/webhooks' }
  for (const [table, path] of Object.entries(tables)) {
    const { rows } = await sql<{ n: number }>`select count(*) as n from ${sql.table(table)}`.execute(db.read)
    assert.equal(Number(rows[0]?.n), asked(path), table)
  }
}
