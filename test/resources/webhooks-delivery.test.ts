import assert from 'node:assert/strict'
import { createPublicKey, randomBytes, verify } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it, type TestContext } from 'node:test'
import Fastify from 'fastify'
import { Webhook } from 'standardwebhooks'
import { theService } from '../../src/db/audit.ts'
import { newId } from '../../src/db/ids.ts'
import type { Database } from '../../src/db/open.ts'
import { sealer } from '../../src/db/seal.ts'
import type { Delivery } from '../../src/db/tables.ts'
import { recordEvent } from '../../src/queue/events.ts'
import { openQueue } from '../../src/queue/open.ts'
import { type Job, LeaseLost, type Queue, Stopping } from '../../src/queue/queue.ts'
import { type DeliverOptions, deliver } from '../../src/resources/webhooks/deliver.ts'
import { fanOut } from '../../src/resources/webhooks/fan-out.ts'
import { insert, newRegistration, remove } from '../../src/resources/webhooks/registrations.ts'
import { webhookKeySet } from '../../src/resources/webhooks/secret-routes.ts'
import { accountSecret, type Owner, type WebhookKeys, webhookKeys } from '../../src/resources/webhooks/secrets.ts'
import { type Outcome, type Sender, sender } from '../../src/resources/webhooks/send.ts'
import { forEachEngine } from '../support/engines.ts'

const seal = sealer(Buffer.alloc(32, 1), randomBytes)
const policy = { allowHttp: true, allowCidrs: ['127.0.0.0/8'] }
const eventBody = { taskId: 'tsk_1', status: 'completed', resultUrl: '/api/reports/tsk_1/download' }

interface Call {
  headers: IncomingHttpHeaders
  bytes: Buffer
}

interface Answer {
  status: number
  headers?: Record<string, string>
  text?: string
}

/** A receiver that keeps its calls and answers the n-th as the test says. */
async function receiver(t: TestContext, answer: (n: number, call: Call) => Answer | Promise<Answer>) {
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

const ok = () => ({ status: 204 })

const isSigned = (secret: string, { bytes, headers }: Call): boolean => {
  const read = new Webhook(secret).verify(bytes, headers as Record<string, string>)
  return JSON.stringify(read) === bytes.toString()
}

let owners = 0
const newOwner = (): Owner => {
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
}

/** The steps that every test takes on the database of its suite. */
function steps(db: Database, queue: Pick<Queue, 'enqueue'>) {
  const store = { db, sealer: seal, now: Date.now, random: randomBytes }
  const deliveries = (eventId: string): Promise<Delivery[]> =>
    db.read.selectFrom('deliveries').selectAll().where('eventId', '=', eventId).orderBy('id').execute()
  return {
    deliveries,
    subscribe: async (owner: Owner, callbackUrl: string, more: object = {}) => {
      const { row, shown } = newRegistration(store, callerOf(owner), { event: '*', callbackUrl, ...more })
      await db.write((tx) => insert(tx, row, store, theService))
      return shown
    },
    unsubscribe: (owner: Owner, id: string) => remove(store, callerOf(owner), id, {}, theService),
    webhook: (id: string) => db.read.selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirstOrThrow(),
    attempts: (deliveryId: string) =>
      db.read.selectFrom('attempts').selectAll().where('deliveryId', '=', deliveryId).orderBy('attempt').execute(),
    emit: async (owner: Owner, { type = 'report.completed', callbackUrl, body = eventBody }: Emitted = {}) => {
      const id = newId('msg', randomBytes)
      const createdAt = new Date().toISOString()
      const event = { id, type, ...owner, body, callbackUrl: callbackUrl ?? null, createdAt }
      await db.write((tx) => recordEvent(tx, queue as Queue, event))
      return event
    },
    /** The deliveries of an event as soon as each of them meets a condition; without it, as soon as none is pending. */
    settled: async (eventId: string, met = (row: Delivery) => row.status !== 'pending'): Promise<Delivery[]> => {
      for (;;) {
        const found = await deliveries(eventId)
        if (found.length > 0 && found.every(met)) return found
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
    },
  }
}

const secondsAfter = (instant: string | null, start: number) => (Date.parse(instant ?? '') - start) / 1_000

forEachEngine((engine) => {
  describe('webhook deliveries through the queue', { concurrency: true, timeout: 20_000 }, () => {
    let db: Database
    let queue: Queue
    let keys: WebhookKeys
    let made: Sender
    let skewMs = 0
    let the: ReturnType<typeof steps>
    const errors: unknown[] = []

    before(async () => {
      db = await engine.database()
      const onError = (error: unknown) => errors.push(error)
      queue = await openQueue({ db, now: Date.now, random: Math.random, onError })
      keys = await webhookKeys(db, seal)
      made = sender({ policy, timeoutMs: 2_000, now: Date.now })
      the = steps(db, queue)
      const now = () => Date.now() + skewMs
      const options = { db, queue, sender: made, sealer: seal, keys, now, random: randomBytes, jitter: Math.random }
      queue.work('event.fan-out', fanOut({ db, queue, now, random: randomBytes }))
      queue.work('delivery.send', deliver({ ...options, schedule: [0, 0.01, 0.01], version: '1.2.3' }))
    })
    after(async () => {
      await queue.stop(1_000)
      await made.close()
      await db.close()
      assert.deepEqual(errors, [])
    })

    it('delivered once, with the bytes of the event and all headers', async (t) => {
      const { calls, url } = await receiver(t, ok)
      const owner = newOwner()
      const { id, secret } = await the.subscribe(owner, url, { headers: { 'X-Team': 'ours' } })
      const event = await the.emit(owner)
      const [delivery] = await the.settled(event.id)
      assert.equal(calls.length, 1)
      assert.equal(calls[0]!.bytes.toString(), JSON.stringify(eventBody))
      assert.ok(isSigned(secret, calls[0]!))
      const { headers } = calls[0]!
      assert.equal(headers['content-type'], 'application/json')
      assert.equal(headers['user-agent'], 'Plinth/1.2.3')
      assert.equal(headers['webhook-id'], event.id)
      assert.equal(headers['webhook-event'], 'report.completed')
      assert.equal(headers['webhook-attempt'], '1')
      assert.equal(headers['x-team'], 'ours')
      assert.match(String(headers['webhook-signature']), /^v1,\S+$/)
      const { webhookId, status, attempts, nextAttemptAt } = delivery!
      assert.deepEqual({ webhookId, status, attempts, nextAttemptAt }, expected(id, 'delivered', 1))
      assert.match(delivery!.id, /^dlv_[\w-]{22}$/)
      const [attempt] = await the.attempts(delivery!.id)
      assert.deepEqual([attempt!.attempt, attempt!.statusCode, attempt!.error], [1, 204, null])
    })

    const expected = (webhookId: string | null, status: string, attempts: number) => ({
      ...{ webhookId, status, attempts },
      nextAttemptAt: null,
    })

    it('failing then succeeding keeps the id and the bytes, with a fresh timestamp (T-WH-01, T-WH-03)', async (t) => {
      const { calls, url } = await receiver(t, (n) => {
        skewMs += 5_000
        return n < 3 ? { status: n === 1 ? 500 : 302, text: 'not yet' } : ok()
      })
      const owner = newOwner()
      const { id, secret } = await the.subscribe(owner, url)
      const event = await the.emit(owner)
      const [delivery] = await the.settled(event.id)
      assert.deepEqual([delivery!.status, delivery!.attempts], ['delivered', 3])
      const header = (name: string) => calls.map(({ headers }) => headers[name])
      assert.deepEqual(header('webhook-id'), [event.id, event.id, event.id])
      assert.deepEqual(header('webhook-attempt'), ['1', '2', '3'])
      const [first, second, third] = header('webhook-timestamp').map(Number)
      assert.ok(first! < second! && second! < third!)
      assert.ok(calls.every((call) => call.bytes.equals(calls[0]!.bytes) && isSigned(secret, call)))
      const tries = await the.attempts(delivery!.id)
      assert.deepEqual(
        tries.map(({ attempt, statusCode, error, responseStart }) => ({ attempt, statusCode, error, responseStart })),
        [
          { attempt: 1, statusCode: 500, error: 'http 500', responseStart: 'not yet' },
          { attempt: 2, statusCode: 302, error: 'redirect not followed', responseStart: 'not yet' },
          { attempt: 3, statusCode: 204, error: null, responseStart: '' },
        ],
      )
      assert.equal((await the.webhook(id)).failingSince, null)
    })

    it('failed when the schedule is used up', async (t) => {
      const { calls, url } = await receiver(t, () => ({ status: 503 }))
      const owner = newOwner()
      const { id } = await the.subscribe(owner, url)
      const event = await the.emit(owner)
      const [delivery] = await the.settled(event.id)
      const { webhookId, status, attempts, nextAttemptAt } = delivery!
      assert.deepEqual({ webhookId, status, attempts, nextAttemptAt }, expected(id, 'failed', 3))
      assert.ok(delivery!.completedAt)
      assert.equal(calls.length, 3)
      const { failingSince, status: still } = await the.webhook(id)
      assert.deepEqual([failingSince, still], [(await the.attempts(delivery!.id))[0]!.startedAt, 'active'])
    })

    it('410 disables the registration at once, with the reason', async (t) => {
      const { calls, url } = await receiver(t, () => ({ status: 410 }))
      const owner = newOwner()
      const { id } = await the.subscribe(owner, url)
      const event = await the.emit(owner)
      const [delivery] = await the.settled(event.id)
      assert.deepEqual([delivery!.status, delivery!.attempts], ['failed', 1])
      const { status, statusReason, revision } = await the.webhook(id)
      assert.deepEqual([status, statusReason, revision], ['disabled', 'The endpoint answered 410 Gone', 2])
      const other = await receiver(t, ok)
      const next = await the.emit(owner, { callbackUrl: other.url })
      const told = (await the.settled(next.id)).map(({ webhookId }) => webhookId)
      assert.deepEqual([told, calls.length, other.calls.length], [[null], 1, 1])
    })

    it('410 from the address of a request ends its delivery', async (t) => {
      const { calls, url } = await receiver(t, () => ({ status: 410 }))
      const [delivery] = await the.settled((await the.emit(newOwner(), { callbackUrl: url })).id)
      assert.deepEqual([delivery!.status, calls.length], ['failed', 1])
    })

    it('calls the address of a request on completed and on failed, signed with v1 and v1a', async (t) => {
      const { calls, url } = await receiver(t, ok)
      const owner = newOwner()
      const failure = { taskId: 'tsk_1', status: 'failed' }
      await the.settled((await the.emit(owner, { callbackUrl: url })).id)
      await the.settled((await the.emit(owner, { type: 'report.failed', callbackUrl: url, body: failure })).id)
      assert.deepEqual(
        calls.map(({ bytes }) => JSON.parse(bytes.toString())),
        [eventBody, failure],
      )
      const app = Fastify()
      await app.register(webhookKeySet, { keys })
      const published = (await app.inject('/.well-known/webhook-keys.json')).json().keys[0]
      const publicKey = createPublicKey({ key: published, format: 'jwk' })
      const secret = await accountSecret(db, seal, owner, Date.now, randomBytes)
      for (const { headers, bytes } of calls) {
        assert.ok(isSigned(secret, { headers, bytes }))
        const content = Buffer.concat([Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.`), bytes])
        const ed25519 = /v1a,(\S+)/.exec(String(headers['webhook-signature']))![1]!
        assert.ok(verify(null, content, publicKey, Buffer.from(ed25519, 'base64')))
      }
    })

    it('calls an address that is both registered and given once, with the secret of the registration', async (t) => {
      const { calls, url } = await receiver(t, ok)
      const owner = newOwner()
      const { id, secret } = await the.subscribe(owner, url, { event: 'report.completed' })
      const event = await the.emit(owner, { callbackUrl: url.replace('http:', 'HTTP:') })
      const deliveries = await the.settled(event.id)
      assert.deepEqual([deliveries.length, deliveries[0]!.webhookId, calls.length], [1, id, 1])
      assert.ok(isSigned(secret, calls[0]!))
      const failed = await the.emit(owner, { type: 'report.failed', callbackUrl: url })
      assert.deepEqual([(await the.settled(failed.id))[0]!.webhookId, calls.length], [null, 2])
    })

    it('two owners do not hear each other (T-WH-07)', async (t) => {
      const mine = await receiver(t, ok)
      const theirs = await receiver(t, ok)
      const owner = newOwner()
      await the.subscribe(owner, mine.url)
      await the.subscribe(newOwner(), theirs.url)
      await the.subscribe({ ...owner, ownerSubject: 'sub_other' }, theirs.url)
      const event = await the.emit(owner)
      assert.equal((await the.settled(event.id)).length, 1)
      assert.deepEqual([mine.calls.length, theirs.calls.length], [1, 0])
    })

    it('one delivery per registration whose pattern matches, in the style it asked for', async (t) => {
      const { calls, url } = await receiver(t, ok)
      const owner = newOwner()
      const styled = await the.subscribe(owner, url, { event: 'report.*', payloadStyle: 'envelope' })
      await the.subscribe(owner, `${url}/2`, { event: 'report.completed' })
      await the.subscribe(owner, `${url}/3`, { event: 'report.failed' })
      const event = await the.emit(owner)
      await the.settled(event.id)
      assert.equal(calls.length, 2)
      const envelope = calls.find(({ bytes }) => bytes.toString().startsWith('{"type"'))!
      const body = { type: 'report.completed', timestamp: event.createdAt, data: eventBody }
      assert.deepEqual(JSON.parse(envelope.bytes.toString()), body)
      assert.ok(isSigned(styled.secret, envelope))
    })

    it('a registration deleted while a call is under way is not called again (T-WH-07)', async (t) => {
      const owner = newOwner()
      const { calls, url } = await receiver(t, async () => {
        await the.unsubscribe(owner, id)
        return { status: 500 }
      })
      const { id } = await the.subscribe(owner, url)
      const event = await the.emit(owner)
      const [delivery] = await the.settled(event.id, ({ attempts }) => attempts === 1)
      assert.deepEqual([delivery!.status, delivery!.nextAttemptAt, calls.length], ['failed', null, 1])
    })

    it('an address that is no longer allowed counts as a failed try', async () => {
      const owner = newOwner()
      const event = await the.emit(owner, { callbackUrl: 'http://10.0.0.1/' })
      const [delivery] = await the.settled(event.id)
      const tries = await the.attempts(delivery!.id)
      assert.deepEqual([delivery!.status, tries.length, tries[0]!.error], ['failed', 3, 'CALLBACK_URL_BLOCKED'])
    })
  })

  describe('one try of a delivery', () => {
    let db: Database
    let keys: WebhookKeys
    const start = Date.parse('2026-03-01T12:00:00.000Z')
    let nowMs = start

    before(async () => {
      db = await engine.database()
      keys = await webhookKeys(db, seal)
    })
    after(() => db.close())

    const job = (payload: object, more: Partial<Job> = {}): Job => ({
      ...{ payload, attempt: 1, signal: new AbortController().signal, finish: async () => {} },
      ...more,
    })

    const failed: Outcome = {
      ...{ status: 500, delivered: false, gone: false, retryAfterSeconds: null, error: 'http 500', blocked: false },
      ...{ durationMs: 12.5, responseStart: 'oops' },
    }
    const delivered: Outcome = { ...failed, status: 200, delivered: true, error: null }

    /** A delivery to one registration, with a queue that only notes, and a sender that answers what the test says. */
    async function one(outcome: Outcome | (() => Outcome | Promise<Outcome>), options: Partial<DeliverOptions> = {}) {
      const owner = newOwner()
      const enqueued: { queue: string; payload: { deliveryId?: string }; delayMs?: number }[] = []
      const sent: { headers: Record<string, string>; body: Uint8Array }[] = []
      const noting: Queue = {
        enqueue: async (_tx, queue, payload, { delayMs } = {}) =>
          void enqueued.push({ queue, payload, ...(delayMs !== undefined && { delayMs }) }),
        work: () => {},
        stop: async () => {},
      }
      const post: Sender['post'] = async (request) => {
        sent.push(request)
        return typeof outcome === 'function' ? outcome() : outcome
      }
      const the = steps(db, noting)
      const now = () => nowMs
      const { id: webhookId } = await the.subscribe(owner, 'https://receiver.test/')
      const event = await the.emit(owner)
      const fan = fanOut({ db, queue: noting, now, random: randomBytes })
      await fan(job({ eventId: event.id }))
      const [{ id }] = (await the.deliveries(event.id)) as [Delivery]
      const defaults = { schedule: [0, 10, 100], version: '1', now, random: randomBytes, jitter: () => 0.5 }
      const work = deliver({ db, queue: noting, sender: { post }, sealer: seal, keys, ...defaults, ...options })
      enqueued.length = 0
      return {
        ...the,
        ...{ owner, enqueued, sent, webhookId, id, event, fan },
        run: (more?: Partial<Job>) => work(job({ deliveryId: id }, more)),
        row: async () => ((await the.deliveries(event.id)) as [Delivery])[0],
      }
    }

    it('is enqueued again after the delay of the schedule, until that is used up', async () => {
      const the = await one(failed)
      await the.run()
      assert.deepEqual(the.enqueued, [{ queue: 'delivery.send', payload: { deliveryId: the.id }, delayMs: 10_000 }])
      assert.equal(secondsAfter((await the.row()).nextAttemptAt, start), 10)
      nowMs += 10_000
      await the.run()
      assert.equal(the.enqueued[1]!.delayMs, 100_000)
      await the.run()
      assert.equal(the.enqueued.length, 2)
      const { status, attempts, nextAttemptAt } = await the.row()
      assert.deepEqual({ status, attempts, nextAttemptAt }, { status: 'failed', attempts: 3, nextAttemptAt: null })
      nowMs = start
    })

    for (const [jitter, seconds] of [
      [0, 8],
      [0.999_999, 12],
    ] as const) {
      it(`waits ±20 % of the schedule: ${seconds} s`, async () => {
        const the = await one(failed, { jitter: () => jitter })
        await the.run()
        assert.equal(Math.round(the.enqueued[0]!.delayMs! / 1_000), seconds)
      })
    }

    for (const [retryAfterSeconds, seconds] of [
      [3_600, 3_600],
      [3, 10],
      [0, 10],
      [99_999_999, 86_400],
    ] as const) {
      it(`Retry-After: ${retryAfterSeconds} waits ${seconds} s (T-WH-05)`, async () => {
        const the = await one({ ...failed, status: 429, retryAfterSeconds })
        await the.run()
        assert.equal(secondsAfter((await the.row()).nextAttemptAt, start), seconds)
        assert.equal(the.enqueued[0]!.delayMs, seconds * 1_000)
      })
    }

    it('repeats the same try when the service died before it was recorded', async () => {
      const the = await one(delivered)
      await assert.rejects(the.run({ finish: async () => Promise.reject(new LeaseLost()) }), LeaseLost)
      assert.deepEqual([(await the.row()).attempts, await the.attempts(the.id)], [0, []])
      await the.run()
      assert.deepEqual(
        the.sent.map(({ headers }) => headers['webhook-attempt']),
        ['1', '1'],
      )
      assert.deepEqual([(await the.row()).status, (await the.attempts(the.id)).length], ['delivered', 1])
    })

    it('is not made again once it is delivered', async () => {
      const the = await one(delivered)
      await the.run()
      await the.run()
      assert.equal(the.sent.length, 1)
    })

    it('is not started by a stopping service, but ends within it', async () => {
      const stopping = new AbortController()
      const the = await one(() => {
        stopping.abort(new Stopping())
        return delivered
      })
      await assert.rejects(the.run({ signal: AbortSignal.abort(new Stopping()) }), Stopping)
      assert.equal(the.sent.length, 0)
      await the.run({ signal: stopping.signal })
      assert.equal((await the.row()).status, 'delivered')
    })

    it('is dropped when its registration was deleted, paused or disabled', async () => {
      for (const status of ['deleted', 'paused', 'disabled'] as const) {
        const the = await one(delivered)
        const change = (tx: Database['read']) =>
          status === 'deleted'
            ? tx.deleteFrom('webhooks').where('id', '=', the.webhookId).execute()
            : tx.updateTable('webhooks').set({ status }).where('id', '=', the.webhookId).execute()
        await db.write(async (tx) => void (await change(tx)))
        let finished = 0
        await the.run({ finish: async () => void finished++ })
        assert.deepEqual([the.sent.length, (await the.row()).status, finished], [0, 'failed', 1])
      }
    })

    it('of a delivery that nobody knows finishes the job', async () => {
      const the = await one(delivered)
      await db.write((tx) => tx.deleteFrom('deliveries').where('id', '=', the.id).execute())
      let finished = 0
      await the.run({ finish: async () => void finished++ })
      assert.deepEqual([finished, the.sent.length], [1, 0])
    })

    it('that meets 410 ends the other deliveries of the registration too', async () => {
      const the = await one({ ...failed, status: 410, gone: true })
      const other = await the.emit(the.owner)
      await the.fan(job({ eventId: other.id }))
      await the.run()
      const [{ status, nextAttemptAt }] = (await the.deliveries(other.id)) as [Delivery]
      assert.deepEqual({ status, nextAttemptAt }, { status: 'failed', nextAttemptAt: null })
      assert.equal((await the.webhook(the.webhookId)).failingSince, null)
    })

    it('keeps since when the endpoint fails, until it succeeds', async () => {
      let outcome = failed
      const the = await one(() => outcome)
      await the.run()
      nowMs += 60_000
      await the.run()
      assert.equal((await the.webhook(the.webhookId)).failingSince, new Date(start).toISOString())
      outcome = delivered
      await the.run()
      const { failingSince, revision } = await the.webhook(the.webhookId)
      assert.deepEqual([failingSince, revision], [null, 1])
      nowMs = start
    })

    it('and deleting its registration at the same time end in peace, whoever is first (T-WH-07)', async () => {
      for (const outcome of [failed, delivered, { ...failed, status: 410, gone: true }]) {
        const races = Array.from({ length: 20 }, async () => {
          const the = await one(outcome)
          await Promise.all([the.run(), the.unsubscribe(the.owner, the.webhookId)])
          const { status, nextAttemptAt } = await the.row()
          if (nextAttemptAt === null) return assert.notEqual(status, 'pending')
          // The record came between the deletion's two steps: the next job sees that there is no registration.
          await the.run()
          assert.deepEqual([(await the.row()).status, the.sent.length], ['failed', 1])
        })
        await Promise.all(races)
      }
    })

    it('fan-out running twice adds nothing (P4)', async () => {
      const the = await one(delivered)
      const event = await the.emit(the.owner, { callbackUrl: 'https://elsewhere.test/' })
      the.enqueued.length = 0
      await the.fan(job({ eventId: event.id }))
      await the.fan(job({ eventId: event.id }))
      assert.deepEqual([(await the.deliveries(event.id)).length, the.enqueued.length], [2, 2])
    })

    it('fan-out that lost its lease leaves nothing', async () => {
      const the = await one(delivered)
      const event = await the.emit(the.owner)
      const lost = { finish: async () => Promise.reject(new LeaseLost()) }
      await assert.rejects(the.fan(job({ eventId: event.id }, lost)), LeaseLost)
      assert.deepEqual(await the.deliveries(event.id), [])
    })
  })
})
