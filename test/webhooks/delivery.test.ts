import assert from 'node:assert/strict'
import { createPublicKey, randomBytes, verify } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import Fastify from 'fastify'
import { openQueue } from '../../src/queue/open.ts'
import type { Queue } from '../../src/queue/queue.ts'
import type { Database } from '../../src/storage/database.ts'
import type { Dispatch } from '../../src/webhooks/dispatch/dispatch-options.ts'
import { startDispatch } from '../../src/webhooks/dispatch/dispatcher.ts'
import { fanOut } from '../../src/webhooks/dispatch/fan-out.ts'
import { type Sender, sender } from '../../src/webhooks/dispatch/http-client.ts'
import { defaultEndpointLimits } from '../../src/webhooks/queue/endpoint-queue.ts'
import { webhookKeySet } from '../../src/webhooks/secret-routes.ts'
import { accountSecret, type WebhookKeys, webhookKeys } from '../../src/webhooks/secrets.ts'
import { forEachEngine } from '../support/engines.ts'
import { eventBody, isSigned, newOwner, noRules, ok, policy, receiver, seal, steps } from '../support/webhooks.ts'

forEachEngine((engine) => {
  describe('webhook dispatch', { concurrency: true, timeout: 20_000 }, () => {
    let db: Database
    let queue: Queue
    let keys: WebhookKeys
    let client: Sender
    let dispatch: Dispatch
    let skewMs = 0
    let fixture: ReturnType<typeof steps>
    const errors: unknown[] = []

    before(async () => {
      db = await engine.database()
      const onError = (error: unknown) => errors.push(error)
      queue = await openQueue({ db, now: Date.now, random: Math.random, onError })
      keys = await webhookKeys(db, seal)
      client = sender({ policy, timeoutMs: 2_000, now: Date.now })
      fixture = steps(db, queue)
      const now = () => Date.now() + skewMs
      dispatch = startDispatch({
        ...{ db, queue, sender: client, sealer: seal, keys, now, random: randomBytes, jitter: Math.random, onError },
        ...{
          limits: defaultEndpointLimits,
          concurrency: 100,
          leaseMs: 20_000,
          schedule: [0, 0.01, 0.01],
          version: '1.2.3',
          access: noRules,
        },
      })
      const fan = fanOut({ db, now, random: randomBytes, queue, access: noRules, onError, onAdded: dispatch.wake })
      queue.work('event.fan-out', { together: fan })
    })
    after(async () => {
      await queue.stop(1_000)
      await dispatch.stop(1_000)
      await client.close()
      await db.close()
      assert.deepEqual(errors, [])
    })

    it('delivers an event once, with its exact bytes and all headers', async (t) => {
      const { calls, url } = await receiver(t, ok)
      const owner = newOwner()
      const { id, secret } = await fixture.subscribe(owner, url, { headers: { 'X-Team': 'ours' } })
      const event = await fixture.emit(owner)
      const [delivery] = await fixture.settled(event.id)
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
      assert.match(delivery!.id, /^dlv_[0-9a-v]{9}[\w-]{22}$/)
      const [attempt] = await fixture.attempts(delivery!.id)
      assert.deepEqual([attempt!.attempt, attempt!.statusCode, attempt!.error], [1, 204, null])
    })

    const expected = (webhookId: string | null, status: string, attempts: number) => ({
      ...{ webhookId, status, attempts },
      nextAttemptAt: null,
    })

    it('retries with the same id and bytes, but a new timestamp (T-WH-01, T-WH-03)', async (t) => {
      const { calls, url } = await receiver(t, (n) => {
        skewMs += 5_000
        return n < 3 ? { status: n === 1 ? 500 : 302, text: 'not yet' } : ok()
      })
      const owner = newOwner()
      const { id, secret } = await fixture.subscribe(owner, url)
      const event = await fixture.emit(owner)
      const [delivery] = await fixture.settled(event.id)
      assert.deepEqual([delivery!.status, delivery!.attempts], ['delivered', 3])
      const header = (name: string) => calls.map(({ headers }) => headers[name])
      assert.deepEqual(header('webhook-id'), [event.id, event.id, event.id])
      assert.deepEqual(header('webhook-attempt'), ['1', '2', '3'])
      const [first, second, third] = header('webhook-timestamp').map(Number)
      assert.ok(first! < second! && second! < third!)
      assert.ok(calls.every((call) => call.bytes.equals(calls[0]!.bytes) && isSigned(secret, call)))
      const tries = await fixture.attempts(delivery!.id)
      assert.deepEqual(
        tries.map(({ attempt, statusCode, error, responseStart }) => ({ attempt, statusCode, error, responseStart })),
        [
          { attempt: 1, statusCode: 500, error: 'http 500', responseStart: 'not yet' },
          { attempt: 2, statusCode: 302, error: 'redirect not followed', responseStart: 'not yet' },
          { attempt: 3, statusCode: 204, error: null, responseStart: '' },
        ],
      )
      assert.equal((await fixture.webhook(id)).failingSince, null)
    })

    it('fails a delivery once the retry schedule is exhausted', async (t) => {
      const { calls, url } = await receiver(t, () => ({ status: 503 }))
      const owner = newOwner()
      const { id } = await fixture.subscribe(owner, url)
      const event = await fixture.emit(owner)
      const [delivery] = await fixture.settled(event.id)
      const { webhookId, status, attempts, nextAttemptAt } = delivery!
      assert.deepEqual({ webhookId, status, attempts, nextAttemptAt }, expected(id, 'failed', 3))
      assert.ok(delivery!.completedAt)
      assert.equal(calls.length, 3)
      const { failingSince, status: still } = await fixture.webhook(id)
      assert.deepEqual([failingSince, still], [(await fixture.attempts(delivery!.id))[0]!.startedAt, 'active'])
    })

    it('disables the webhook immediately after a 410, with the reason', async (t) => {
      const { calls, url } = await receiver(t, () => ({ status: 410 }))
      const owner = newOwner()
      const { id } = await fixture.subscribe(owner, url)
      const event = await fixture.emit(owner)
      const [delivery] = await fixture.settled(event.id)
      assert.deepEqual([delivery!.status, delivery!.attempts], ['failed', 1])
      const { status, statusReason, revision } = await fixture.webhook(id)
      assert.deepEqual([status, statusReason, revision], ['disabled', 'The endpoint responded with 410 Gone', 2])
      const other = await receiver(t, ok)
      const next = await fixture.emit(owner, { callbackUrl: other.url })
      const webhookIds = (await fixture.settled(next.id)).map(({ webhookId }) => webhookId)
      assert.deepEqual([webhookIds, calls.length, other.calls.length], [[null], 1, 1])
    })

    it('fails a delivery to a one-off callback URL without a retry after a 410', async (t) => {
      const { calls, url } = await receiver(t, () => ({ status: 410 }))
      const [delivery] = await fixture.settled((await fixture.emit(newOwner(), { callbackUrl: url })).id)
      assert.deepEqual([delivery!.status, calls.length], ['failed', 1])
    })

    it('calls a one-off callback URL on completion and on failure, with v1 and v1a signatures', async (t) => {
      const { calls, url } = await receiver(t, ok)
      const owner = newOwner()
      const failure = { taskId: 'tsk_1', status: 'failed' }
      await fixture.settled((await fixture.emit(owner, { callbackUrl: url })).id)
      await fixture.settled((await fixture.emit(owner, { type: 'report.failed', callbackUrl: url, body: failure })).id)
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

    it('makes only one call, signed with the webhook’s secret, if the callback URL is also registered as a webhook for the event', async (t) => {
      const { calls, url } = await receiver(t, ok)
      const owner = newOwner()
      const { id, secret } = await fixture.subscribe(owner, url, { event: 'report.completed' })
      const event = await fixture.emit(owner, { callbackUrl: url.replace('http:', 'HTTP:') })
      const deliveries = await fixture.settled(event.id)
      assert.deepEqual([deliveries.length, deliveries[0]!.webhookId, calls.length], [1, id, 1])
      assert.ok(isSigned(secret, calls[0]!))
      const failed = await fixture.emit(owner, { type: 'report.failed', callbackUrl: url })
      assert.deepEqual([(await fixture.settled(failed.id))[0]!.webhookId, calls.length], [null, 2])
    })

    it('makes a second call, with the plain body, if the callback URL is also registered as a webhook with the envelope style', async (t) => {
      const { calls, url } = await receiver(t, ok)
      const owner = newOwner()
      const { id } = await fixture.subscribe(owner, url, { payloadStyle: 'envelope' })
      const event = await fixture.emit(owner, { callbackUrl: url })
      const webhookIds = (await fixture.settled(event.id)).map(({ webhookId }) => webhookId)
      assert.deepEqual(new Set(webhookIds), new Set([id, null]))
      const bodies = calls.map(({ bytes }) => JSON.parse(bytes.toString()))
      assert.deepEqual(
        bodies.map((body) => body.data ?? body),
        [eventBody, eventBody],
      )
      assert.equal(bodies.filter(({ taskId }) => taskId === eventBody.taskId).length, 1)
    })

    it('delivers an event only to webhooks of the event’s owner (T-WH-07)', async (t) => {
      const mine = await receiver(t, ok)
      const theirs = await receiver(t, ok)
      const owner = newOwner()
      await fixture.subscribe(owner, mine.url)
      await fixture.subscribe(newOwner(), theirs.url)
      await fixture.subscribe({ ...owner, ownerSubject: 'sub_other' }, theirs.url)
      const event = await fixture.emit(owner)
      assert.equal((await fixture.settled(event.id)).length, 1)
      assert.deepEqual([mine.calls.length, theirs.calls.length], [1, 0])
    })

    it('creates one delivery per webhook with a matching pattern, in the webhook’s payload style', async (t) => {
      const { calls, url } = await receiver(t, ok)
      const owner = newOwner()
      const styled = await fixture.subscribe(owner, url, { event: 'report.*', payloadStyle: 'envelope' })
      await fixture.subscribe(owner, `${url}/2`, { event: 'report.completed' })
      await fixture.subscribe(owner, `${url}/3`, { event: 'report.failed' })
      const event = await fixture.emit(owner)
      await fixture.settled(event.id)
      assert.equal(calls.length, 2)
      const envelope = calls.find(({ bytes }) => bytes.toString().startsWith('{"type"'))!
      const body = { type: 'report.completed', timestamp: event.createdAt, data: eventBody }
      assert.deepEqual(JSON.parse(envelope.bytes.toString()), body)
      assert.ok(isSigned(styled.secret, envelope))
    })

    it('makes no further calls to a webhook that was deleted during a call (T-WH-07)', async (t) => {
      const owner = newOwner()
      const { calls, url } = await receiver(t, async () => {
        await fixture.unsubscribe(owner, id)
        return { status: 500 }
      })
      const { id } = await fixture.subscribe(owner, url)
      const event = await fixture.emit(owner)
      const [delivery] = await fixture.settled(event.id, ({ attempts }) => attempts === 1)
      assert.deepEqual([delivery!.status, delivery!.nextAttemptAt, calls.length], ['failed', null, 1])
    })

    it('fails a delivery to a blocked address after all its attempts, with a generic error (T-SSRF-08)', async () => {
      const owner = newOwner()
      const event = await fixture.emit(owner, { callbackUrl: 'http://10.0.0.1/' })
      const [delivery] = await fixture.settled(event.id)
      const tries = await fixture.attempts(delivery!.id)
      assert.deepEqual([delivery!.status, tries.length, tries[0]!.error], ['failed', 3, 'unreachable'])
    })
  })
})
