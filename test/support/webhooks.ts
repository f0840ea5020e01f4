import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, afterEach, before, type TestContext } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { theService } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { type EventAccess, recordEvent } from '../../src/queue/events.ts'
import type { Batch, Queue } from '../../src/queue/queue.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer } from '../../src/storage/encryption.ts'
import { newOrderedId } from '../../src/storage/ids.ts'
import type { Delivery } from '../../src/storage/tables/tables.ts'
import type { Dispatch, DispatchOptions } from '../../src/webhooks/dispatch/dispatch-options.ts'
import { startDispatch } from '../../src/webhooks/dispatch/dispatcher.ts'
import { type FanOutOptions, fanOut } from '../../src/webhooks/dispatch/fan-out.ts'
import type { OutboundPost, Sender } from '../../src/webhooks/dispatch/http-client.ts'
import type { CallOutcome } from '../../src/webhooks/dispatch/outcome.ts'
import { defaultEndpointLimits } from '../../src/webhooks/queue/endpoint-queue.ts'
import { insert, newRegistration, remove } from '../../src/webhooks/registrations.ts'
import type { RegistrationPatch } from '../../src/webhooks/rules.ts'
import { type Owner, webhookKeys } from '../../src/webhooks/secrets.ts'
import { changeWebhook } from '../../src/webhooks/update.ts'
import type { EngineUnderTest } from './engines.ts'

export const seal = sealer(Buffer.alloc(32, 1), randomBytes)
export const policy = { allowHttp: true, allowCidrs: ['127.0.0.0/8'] }
export const eventBody = { taskId: 'tsk_1', status: 'completed', resultUrl: '/api/reports/tsk_1/download' }

/** Access rules that apply to no resource. */
export const noRules: EventAccess = { appliesTo: () => false, judge: () => async () => true }

export interface Call {
  headers: IncomingHttpHeaders
  bytes: Buffer
}

export interface Answer {
  status: number
  headers?: Record<string, string>
  text?: string
}

/** Starts a receiver that records its calls; `answer` returns the response to the n-th call. */
export async function receiver(t: TestContext, answer: (n: number, call: Call) => Answer | Promise<Answer>) {
  const calls: Call[] = []
  const server = createServer(async (request, response) => {
    const call = { headers: request.headers, bytes: Buffer.concat(await request.toArray()) }
    calls.push(call)
    const { status, headers, text } = await answer(calls.length, call)
    response.writeHead(status, headers).end(text)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return { calls, url: `http://127.0.0.1:${port}/hook` }
}

export const ok = () => ({ status: 204 })

export const isSigned = (secret: string, { bytes, headers }: Call): boolean => {
  const read = new Webhook(secret).verify(bytes, headers as Record<string, string>)
  return JSON.stringify(read) === bytes.toString()
}

let owners = 0
export const newOwner = (): Owner => {
  owners += 1
  return { ownerClient: `cli_${owners}`, ownerSubject: `sub_${owners}` }
}

const callerOf = ({ ownerClient, ownerSubject }: Owner) => ({
  clientId: ownerClient,
  subject: ownerSubject,
  scopes: new Set<string>(),
})

interface Emitted {
  type?: string
  callbackUrl?: string
  body?: object
  audience?: string
}

/** Returns steps that many tests share, such as subscribing to events and recording one, on this database. */
export function steps(db: Database, queue: Pick<Queue, 'enqueue'>) {
  const store = { db, queue: queue as Queue, sealer: seal, now: Date.now, random: randomBytes }
  const deliveries = (eventId: string): Promise<Delivery[]> =>
    db.read.selectFrom('deliveries').selectAll().where('eventId', '=', eventId).orderBy('id').execute()
  return {
    deliveries,
    subscribe: async (owner: Owner, callbackUrl: string, more: object = {}) => {
      const { row, shown } = newRegistration(store, callerOf(owner), { event: '*', callbackUrl, ...more })
      await db.write((tx) => insert(tx, row, store, theService))
      return shown
    },
    change: (owner: Owner, id: string, patch: RegistrationPatch) =>
      changeWebhook({ ...store, events: builtIn.events, access: noRules }, callerOf(owner), id, patch, {}, theService),
    unsubscribe: (owner: Owner, id: string) => remove(store, callerOf(owner), id, {}, theService),
    webhook: (id: string) => db.read.selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirstOrThrow(),
    attempts: (deliveryId: string) =>
      db.read.selectFrom('attempts').selectAll().where('deliveryId', '=', deliveryId).orderBy('attempt').execute(),
    emit: async (
      owner: Owner,
      { type = 'report.completed', callbackUrl, body = eventBody, audience }: Emitted = {},
    ) => {
      const createdAt = new Date().toISOString()
      const id = newOrderedId('msg', randomBytes, createdAt)
      const event = {
        id,
        type,
        ...owner,
        body,
        callbackUrl: callbackUrl ?? null,
        createdAt,
        ...(audience && { audience }),
      }
      await db.write((tx) => recordEvent(tx, queue as Queue, event))
      return event
    },
    /** Waits until each delivery of an event meets a condition, by default until none is pending; returns the deliveries. */
    settled: async (eventId: string, met = (row: Delivery) => row.status !== 'pending'): Promise<Delivery[]> => {
      for (;;) {
        const found = await deliveries(eventId)
        if (found.length > 0 && found.every(met)) return found
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
    },
  }
}

const failed: CallOutcome = {
  ...{ status: 500, delivered: false, gone: false, retryAfterSeconds: null, error: 'http 500', blocked: false },
  ...{ cause: 'http 500', durationMs: 12.5, responseStart: 'oops', responseHeaders: null },
}

/** Call outcomes that a test's sender can return. */
export const outcomes = {
  failed,
  delivered: { ...failed, status: 200, delivered: true, error: null, cause: null },
  gone: { ...failed, status: 410, gone: true },
} satisfies Record<string, CallOutcome>

/** Creates a batch of jobs as a queue would pass it to a worker. */
export const batch = (payloads: object[], more: Partial<Batch> = {}): Batch => ({
  ...{ payloads, signal: new AbortController().signal, finish: async () => {} },
  ...more,
})

/**
 * Creates dispatchers on a database of the suite, which is passed to `opened`. The test controls the clock and supplies
 * the outcome of each call. Every test starts at the same time and without deliveries.
 */
export function dispatching(
  engine: Pick<EngineUnderTest, 'database'>,
  clock: { now: number },
  opened: (db: Database) => void,
) {
  let known: Database
  const db = () => known
  const startMs = clock.now
  before(async () => {
    known = await engine.database()
    opened(known)
  })
  after(() => known.close())
  const running: Dispatch[] = []
  const errors: unknown[] = []
  const onError = (error: unknown) => errors.push(error)
  const now = () => clock.now
  const enqueued: { queue: string; payload: object }[] = []
  const queue: Queue = {
    enqueue: async (_tx, name, payload) => void enqueued.push({ queue: name, payload }),
    work: () => {},
    stop: async () => {},
  }
  afterEach(async () => {
    clock.now = startMs
    for (const dispatch of running.splice(0)) await dispatch.stop(50)
    for (const table of ['attempts', 'deliveries', 'deliveryLanes', 'deliveryOwners'] as const) {
      await db().write((tx) => tx.deleteFrom(table).execute())
    }
    assert.deepEqual(errors.splice(0), [])
  })
  const fan = (jobs: Batch, more: Partial<FanOutOptions> = {}) =>
    fanOut({ db: db(), now, random: randomBytes, queue, access: noRules, onError, ...more })(jobs)
  const start = async (post: Sender['post'], options: Partial<DispatchOptions> = {}): Promise<Dispatch> => {
    const dispatch = startDispatch({
      ...{ db: db(), queue, sender: { post }, sealer: seal, keys: await webhookKeys(db(), seal), version: '1', now },
      ...{
        random: randomBytes,
        jitter: () => 0.5,
        schedule: [0, 10, 100],
        limits: defaultEndpointLimits,
        concurrency: 100,
      },
      ...{ leaseMs: 30_000, access: noRules, onError, ...options },
    })
    running.push(dispatch)
    return dispatch
  }
  /** Creates a webhook and a delivery to it. `run` starts a dispatcher and stops it once no delivery is due. */
  const one = async (
    answer: CallOutcome | (() => CallOutcome | Promise<CallOutcome>),
    options: Partial<DispatchOptions> = {},
  ) => {
    const owner = newOwner()
    const sent: OutboundPost[] = []
    const post: Sender['post'] = async (request) => {
      sent.push(request)
      return typeof answer === 'function' ? answer() : answer
    }
    const fixture = steps(db(), queue)
    const { id: webhookId } = await fixture.subscribe(owner, 'https://receiver.test/')
    const event = await fixture.emit(owner)
    await fan(batch([{ eventId: event.id }]))
    const row = async () => ((await fixture.deliveries(event.id)) as [Delivery])[0]
    const { id } = await row()
    const run = async () => {
      // A dispatcher claims due deliveries as soon as it starts.
      const dispatch = await start(post, options)
      await dispatch.settled()
      await dispatch.stop(1_000)
    }
    return { ...fixture, owner, sent, webhookId, id, event, row, run, post }
  }
  return { start, one, fan, queue, enqueued, errors }
}
