import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Database } from '../../src/storage/database.ts'
import { type Answer, eventually, type RealService } from './service.ts'

/** The requests that clients sent during faults, and their outcomes. */
export interface Ledger {
  /** The response bodies of acknowledged products, by product name. */
  acknowledged: Map<string, string>
  /** The names of products that were sent without a key and not acknowledged. */
  unknown: string[]
  tasks: string[]
  /** The number of responses by status, such as 201 or 503. */
  statuses: Map<number, number>
  /** Requests that got no response, a 503 without Retry-After, or an unexpected status (see `request`). */
  violations: string[]
}

export const emptyLedger = (): Ledger => ({
  ...{ acknowledged: new Map(), unknown: [], tasks: [], statuses: new Map(), violations: [] },
})

/** No request may take this long: a client then gives up and records a violation. */
const responseMs = 30_000
const clients = 4
/** The pause of a client between rounds of requests, so that a test uses little CPU time. */
const pauseMs = 15

/** Starts clients that read, write and request reports until `stop` is called. */
export function startLoad(service: RealService, ledger: Ledger, { run, hookUrl }: { run: string; hookUrl: string }) {
  let isRunning = true
  const send = (method: string, path: string, options: { body?: unknown; key?: string } = {}) =>
    request(service, ledger, method, path, options)
  const client = async (number: number) => {
    for (let n = 0; isRunning; n++) {
      const name = `${run}-${number}-${n}`
      await product(send, ledger, name, () => isRunning)
      await unkeyed(send, ledger, `${name}-unkeyed`)
      await send('GET', '/products?limit=2')
      if (number === 0 && n % 8 === 0) await report(send, ledger, hookUrl)
      await pause(pauseMs)
    }
  }
  const running = Array.from({ length: clients }, (_, number) => client(number))
  return {
    stop: async () => {
      isRunning = false
      await Promise.all(running)
    },
  }
}

type Send = (method: string, path: string, options?: { body?: unknown; key?: string }) => Promise<Answer | undefined>

/**
 * Sends a request and counts its status. Records a violation unless the status is 2xx, 503 with Retry-After, or 409
 * IDEMPOTENCY_IN_PROGRESS.
 */
async function request(
  service: RealService,
  { statuses, violations }: Ledger,
  method: string,
  path: string,
  { body, key }: { body?: unknown; key?: string },
): Promise<Answer | undefined> {
  const headers: Record<string, string> = key === undefined ? {} : { 'idempotency-key': key }
  const options = { ...(body !== undefined && { body }), headers, signal: AbortSignal.timeout(responseMs) }
  try {
    const answer = await service.call(method, path, options)
    const { status } = answer
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    const isBusyKey = status === 409 && answer.json().errorCode === 'IDEMPOTENCY_IN_PROGRESS'
    const isFine = (status >= 200 && status < 300) || status === 503 || isBusyKey
    const retry = answer.headers['retry-after']
    if (!isFine || (status === 503 && !/^[1-9]\d*$/.test(String(retry)))) {
      violations.push(`${method} ${path}: ${status}, Retry-After ${retry}: ${answer.text}`)
    }
    return answer
  } catch (error) {
    violations.push(`${method} ${path}: ${error}`)
    return undefined
  }
}

/** Creates a product. Repeats the request with the same key until it succeeds or the clients stop. */
async function product(send: Send, { acknowledged }: Ledger, name: string, isRunning: () => boolean): Promise<void> {
  for (;;) {
    const answer = await send('POST', '/products', { body: { name, price: 1 }, key: name })
    if (answer?.status === 201) return void acknowledged.set(name, answer.text)
    if (!isRunning()) return
    await pause(pauseMs * 4)
  }
}

async function unkeyed(send: Send, { acknowledged, unknown }: Ledger, name: string): Promise<void> {
  const answer = await send('POST', '/products', { body: { name, price: 1 } })
  if (answer?.status === 201) acknowledged.set(name, answer.text)
  else unknown.push(name)
}

async function report(send: Send, { tasks }: Ledger, webhookUrl: string): Promise<void> {
  const body = { reportType: 'books', format: 'csv', webhookUrl }
  const answer = await send('POST', '/api/reports', { body })
  if (answer?.status === 202) tasks.push(answer.json().taskId)
}

/** Waits until the service has sent this many more responses with the status. */
export function further(ledger: Ledger, status: number, count: number): Promise<true> {
  const before = ledger.statuses.get(status) ?? 0
  return eventually(`${count} more responses with ${status}`, async () => {
    return (ledger.statuses.get(status) ?? 0) >= before + count
  }) as Promise<true>
}

/** Waits until the service is not ready, and asserts that it is still alive. */
export async function isUnready(service: RealService): Promise<void> {
  const answer = await eventually('it is not ready', async () => {
    const found = await service.call('GET', '/readyz')
    return found.status !== 200 && found
  })
  assert.deepEqual([answer.status, answer.headers['retry-after']], [503, '2'])
  const alive = await service.call('GET', '/livez')
  assert.equal(alive.status, 200, alive.text)
}

const pollMs = 250
/** A healthy service needs at most 5 s, or 20 polls. A busy machine gets three times as many. */
const maxPolls = 60

/** Polls until the service is ready and accepts a write; returns the number of polls. */
export async function healthyAgain(service: RealService): Promise<number> {
  for (let polls = 1; polls <= maxPolls; polls++) {
    const signal = AbortSignal.timeout(responseMs)
    const ready = await service.call('GET', '/readyz', { signal })
    if (ready.status === 200) {
      const written = await service.call('POST', '/products', { body: { name: 'healthy again', price: 1 }, signal })
      if (written.status === 201) return polls
    }
    await pause(pollMs)
  }
  assert.fail(`The service is still unhealthy after ${maxPolls} polls: ${service.output().slice(-2_000)}`)
}

/**
 * Asserts that there are no violations, and that the database contains each acknowledged product once and each other
 * product at most once.
 */
export async function hasLostNothing(db: Database, ledger: Ledger): Promise<void> {
  assert.deepEqual(ledger.violations, [])
  const { rows } = await sql<{ name: string; copies: number }>`
    select name, count(*) as copies from products group by name`.execute(db.read)
  const copies = new Map(rows.map((row) => [row.name, Number(row.copies)]))
  for (const [name, text] of ledger.acknowledged) {
    assert.equal(copies.get(name), 1, name)
    const { id } = JSON.parse(text)
    assert.equal((await db.read.selectFrom('products').select('name').where('id', '=', id).execute())[0]?.name, name)
  }
  for (const name of ledger.unknown) assert.ok((copies.get(name) ?? 0) <= 1, name)
}

/** Asserts that each accepted report completes and that its single event is delivered. */
export async function completesReports(
  service: RealService,
  db: Database,
  { tasks }: Ledger,
  hooks: Receiver,
): Promise<void> {
  assert.ok(tasks.length > 0)
  for (const id of tasks) {
    await eventually(`task ${id} is completed`, async () => {
      const task = (await service.call('GET', `/api/reports/${id}/status`)).json()
      assert.notEqual(task.status, 'failed', JSON.stringify(task))
      return task.status === 'completed'
    })
    const events = await db.read.selectFrom('events').select('id').where('body', 'like', `%${id}%`).execute()
    assert.equal(events.length, 1, `events of ${id}`)
    await eventually(`the event of ${id} arrives`, async () => hooks.seen.has(String(events[0]?.id)))
  }
}

export interface Receiver {
  url: string
  seen: Set<string>
  close: () => void
}

/** Starts a receiver of webhooks that records the ids of the events that it gets. */
export async function eventReceiver(): Promise<Receiver> {
  const seen = new Set<string>()
  const server = createServer((request, response) => {
    seen.add(String(request.headers['webhook-id']))
    request.resume().on('end', () => response.writeHead(204).end())
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, seen, close: () => server.close() }
}
