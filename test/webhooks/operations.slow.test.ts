import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { beforeEach, describe, it } from 'node:test'
import { recordHealthEvent } from '../../src/webhooks/dispatch/health-events.ts'
import { everyScope, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { hooksOn, isSigned } from '../support/hooks.ts'
import { eventually } from '../support/service.ts'

type Json = ReturnType<typeof JSON.parse>

forEachEngine((engine) => {
  describe('webhook operations', { timeout: 60_000 }, () => {
    const service = hooksOn(engine)
    let bearer: string
    let owners = 0
    beforeEach(() => {
      owners += 1
      bearer = token(everyScope, `cli_${owners}`)
      service.ahead.ms = 0
    })

    const call = async (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', url: string, payload?: object, headers = {}) =>
      service.send({ method, url, ...(payload && { payload }), token: bearer, headers })
    const register = async (callbackUrl: string, more: object = {}): Promise<Json> => {
      const response = await call('POST', '/api/webhooks', { event: 'report.*', callbackUrl, ...more })
      assert.equal(response.statusCode, 201, response.body)
      return response.json()
    }
    const post = async (url: string, payload?: object, status = 202): Promise<Json> => {
      const response = await call('POST', url, payload)
      assert.equal(response.statusCode, status, response.body)
      return response.json()
    }
    const refused = async (status: number, code: string, ...of: Parameters<typeof call>) => {
      const response = await call(...of)
      assert.deepEqual([response.statusCode, response.json().errorCode], [status, code], response.body)
      return response.json()
    }
    /** Waits until a delivery has succeeded or failed, and returns it. */
    const ended = (webhookId: string, id: string): Promise<Json> =>
      eventually('a delivery ends', async () => {
        const delivery = (await call('GET', `/api/webhooks/${webhookId}/deliveries/${id}`)).json()
        return delivery.status !== 'pending' && delivery
      })
    /** Waits until the webhook's log contains this many deliveries and all have ended; returns the log. */
    const log = (webhookId: string, count = 1): Promise<Json[]> =>
      eventually(`${count} deliveries`, async () => {
        const found = (await call('GET', `/api/webhooks/${webhookId}/deliveries`)).json()
        return found.length >= count && found.every(({ status }: Json) => status !== 'pending') && found
      })
    const product = async () => (await call('POST', '/products', { name: 'Lamp', price: 1 })).json()

    describe('POST /api/webhooks/{id}/test', () => {
      it('202 with a delivery marked as a test; signs it and sends it only to this webhook', async () => {
        const [mine, other] = [await service.receiver(), await service.receiver()]
        const { id, secret } = await register(mine.url)
        await register(other.url, { event: '*' })
        const response = await call('POST', `/api/webhooks/${id}/test`)
        assert.equal(response.statusCode, 202, response.body)
        const { id: deliveryId, event, test, status, attempts } = response.json()
        assert.deepEqual([event, test, status, attempts], ['webhook.test', true, 'pending', []])
        assert.equal(response.headers.location, `/api/webhooks/${id}/deliveries/${deliveryId}`)
        assert.equal(response.headers['retry-after'], '1')
        const delivery = await ended(id, deliveryId)
        assert.deepEqual([delivery.status, delivery.attempts.length], ['delivered', 1])
        const [sent] = mine.calls
        assert.ok(isSigned(secret, sent!))
        assert.equal(sent!.headers['webhook-id'], delivery.eventId)
        assert.equal(sent!.headers['webhook-event'], 'webhook.test')
        assert.deepEqual(JSON.parse(sent!.bytes.toString()), { webhookId: id, event: 'report.*' })
        await post(`/api/webhooks/${id}/test`)
        await mine.called(2)
        assert.equal(other.calls.length, 0)
      })

      it('202 even if the webhook is paused; a failed test call is not retried', async () => {
        const { url, calls, ...receiver } = Object.assign(await service.receiver(), { status: () => 500 })
        assert.ok(receiver.called)
        const { id } = await register(url)
        for (const status of ['active', 'paused']) {
          await call('PATCH', `/api/webhooks/${id}`, { status })
          const delivery = await ended(id, (await post(`/api/webhooks/${id}/test`)).id)
          assert.deepEqual([delivery.status, delivery.attempts.length], ['failed', 1])
          assert.equal(delivery.attempts[0].error, 'http 500')
        }
        assert.equal(calls.length, 2)
      })

      it('202; sends the example of the requested event type in the webhook’s payload style', async () => {
        const { url, calls } = await service.receiver()
        const { id, secret } = await register(url, { payloadStyle: 'envelope' })
        await ended(id, (await post(`/api/webhooks/${id}/test`, { event: 'user.created' })).id)
        const kinds = (await call('GET', '/api/event-types')).json()
        const { example } = kinds.find(({ event }: Json) => event === 'user.created')
        const { type, data } = JSON.parse(calls[0]!.bytes.toString())
        assert.deepEqual([type, data], ['user.created', example])
        assert.ok(isSigned(secret, calls[0]!))
      })

      it('422 for an event pattern, 400 for a number as the event, 404 for an unknown or another owner’s webhook', async () => {
        const { id } = await register('http://127.0.0.1:9/')
        await refused(422, 'VALIDATION_ERROR', 'POST', `/api/webhooks/${id}/test`, { event: 'user.*' })
        await refused(400, 'INVALID_INPUT', 'POST', `/api/webhooks/${id}/test`, { event: 7 })
        await refused(404, 'RESOURCE_NOT_FOUND', 'POST', `/api/webhooks/whk_${'A'.repeat(22)}/test`)
        bearer = token(everyScope, 'cli_else')
        await refused(404, 'RESOURCE_NOT_FOUND', 'POST', `/api/webhooks/${id}/test`)
      })
    })

    describe('POST /api/webhooks/{id}/rotate-secret', () => {
      const dayMs = 24 * 3_600_000
      const sentTo = async (id: string, { calls }: { calls: Json[] }) => {
        await ended(id, (await post(`/api/webhooks/${id}/test`)).id)
        return calls.at(-1)
      }

      it('200 with a new secret, shown once; both secrets sign for 24 hours, then only the new one (T-WH-02)', async () => {
        const receiver = await service.receiver()
        const { id, secret: old } = await register(receiver.url)
        const response = await call('POST', `/api/webhooks/${id}/rotate-secret`)
        assert.deepEqual(
          [response.statusCode, response.headers['cache-control'], response.headers.etag],
          [200, 'no-store', '"2"'],
        )
        const { secret, previousSecretExpiresAt } = response.json()
        assert.ok(secret !== old && /^whsec_/.test(secret))
        assert.ok(Math.abs(Date.parse(previousSecretExpiresAt) - Date.now() - dayMs) < 60_000)
        const read = await call('GET', `/api/webhooks/${id}`)
        assert.equal(read.json().previousSecretExpiresAt, previousSecretExpiresAt)
        assert.ok(!/whsec_/.test(read.body))
        let sent = await sentTo(id, receiver)
        assert.match(String(sent.headers['webhook-signature']), /^v1,\S+ v1,\S+$/)
        assert.deepEqual([isSigned(secret, sent), isSigned(old, sent)], [true, true])
        service.ahead.ms = dayMs + 1_000
        sent = await sentTo(id, receiver)
        assert.deepEqual([isSigned(secret, sent), isSigned(old, sent)], [true, false])
      })

      it('200 with `immediate`; then signs with the new secret only', async () => {
        const receiver = await service.receiver()
        const { id, secret: first } = await register(receiver.url)
        const { secret: second } = await post(`/api/webhooks/${id}/rotate-secret`, {}, 200)
        const third = await post(`/api/webhooks/${id}/rotate-secret`, { immediate: true }, 200)
        assert.equal(third.previousSecretExpiresAt, undefined)
        const sent = await sentTo(id, receiver)
        assert.deepEqual(
          [first, second, third.secret].map((one) => isSigned(one, sent)),
          [false, false, true],
        )
      })

      it('409 until the previous secret expires, then 200; no secret is stored in plain text', async () => {
        const receiver = await service.receiver()
        const { id, secret: first } = await register(receiver.url)
        const path = `/api/webhooks/${id}/rotate-secret`
        const { secret: second, previousSecretExpiresAt } = await post(path, undefined, 200)
        const { detail } = await refused(409, 'SECRET_ROTATION_IN_PROGRESS', 'POST', path)
        assert.ok(detail.includes(previousSecretExpiresAt))
        const both = await sentTo(id, receiver)
        assert.deepEqual([isSigned(first, both), isSigned(second, both)], [true, true])
        service.ahead.ms = dayMs + 1_000
        const { secret: third } = await post(path, undefined, 200)
        const sent = await sentTo(id, receiver)
        assert.deepEqual(
          [first, second, third].map((one) => isSigned(one, sent)),
          [false, true, true],
        )
        const rows = JSON.stringify(await service.db.read.selectFrom('webhooks').selectAll().execute())
        assert.ok([first, second, third].every((one) => !rows.includes(one)))
      })

      it('412 for an outdated entity tag, 404 for an unknown webhook, 400 for a wrong type', async () => {
        const { id } = await register('http://127.0.0.1:9/')
        const path = `/api/webhooks/${id}/rotate-secret`
        await refused(412, 'PRECONDITION_FAILED', 'POST', path, {}, { 'if-match': '"2"' })
        assert.equal((await call('POST', path, {}, { 'if-match': '"1"' })).statusCode, 200)
        await refused(404, 'RESOURCE_NOT_FOUND', 'POST', `/api/webhooks/whk_${'A'.repeat(22)}/rotate-secret`)
        await refused(400, 'INVALID_INPUT', 'POST', path, { immediate: 'yes' })
      })
    })

    describe('POST /api/webhooks/secret/rotate', () => {
      it('200, then 409 while both secrets are in use, unless `immediate` is true', async () => {
        const receiver = await service.receiver()
        const first = (await call('GET', '/api/webhooks/secret')).json().secret
        const reported = async () => {
          const count = receiver.calls.length
          const payload = { reportType: 'books', format: 'csv', webhookUrl: receiver.url }
          const { taskId } = (await call('POST', '/api/reports', payload)).json()
          await call('POST', `/api/reports/${taskId}/cancel`)
          await receiver.called(count + 1)
          return receiver.calls.at(-1)!
        }
        const second = await post('/api/webhooks/secret/rotate', {}, 200)
        assert.ok(second.secret !== first && second.previousSecretExpiresAt)
        assert.deepEqual((await call('GET', '/api/webhooks/secret')).json(), second)
        const both = await reported()
        assert.deepEqual([isSigned(first, both), isSigned(second.secret, both)], [true, true])
        assert.match(String(both.headers['webhook-signature']), /^v1,\S+ v1,\S+ v1a,\S+$/)
        await refused(409, 'SECRET_ROTATION_IN_PROGRESS', 'POST', '/api/webhooks/secret/rotate')
        assert.deepEqual((await call('GET', '/api/webhooks/secret')).json(), second)
        const third = await post('/api/webhooks/secret/rotate', { immediate: true }, 200)
        const one = await reported()
        assert.deepEqual(
          [second.secret, third.secret].map((secret) => isSigned(secret, one)),
          [false, true],
        )
      })
    })

    describe('POST /api/webhooks/{id}/deliveries/{deliveryId}/redeliver', () => {
      it('202; sends the same id and bytes on a new schedule, and continues counting attempts', async () => {
        const receiver = Object.assign(await service.receiver(), { status: (n: number) => (n <= 3 ? 503 : 204) })
        const { id } = await register(receiver.url, { event: 'product.created' })
        await product()
        const [failed] = await log(id)
        assert.deepEqual([failed.status, failed.attempts.length], ['failed', 2])
        const path = `/api/webhooks/${id}/deliveries/${failed.id}/redeliver`
        const response = await call('POST', path)
        assert.deepEqual([response.statusCode, response.json().status], [202, 'pending'])
        assert.ok(response.json().nextAttemptAt && !response.json().completedAt)
        const delivery = await ended(id, failed.id)
        assert.deepEqual(
          delivery.attempts.map(({ attempt, statusCode }: Json) => [attempt, statusCode]),
          [1, 2, 3, 4].map((n) => [n, n <= 3 ? 503 : 204]),
        )
        assert.equal(delivery.status, 'delivered')
        const [first] = receiver.calls
        for (const { headers, bytes } of receiver.calls) {
          assert.equal(headers['webhook-id'], failed.eventId)
          assert.ok(bytes.equals(first!.bytes))
        }
        assert.deepEqual(
          receiver.calls.map(({ headers }) => headers['webhook-attempt']),
          ['1', '2', '3', '4'],
        )
      })

      it('202 for a completed delivery; 409 WEBHOOK_NOT_ACTIVE if the webhook is paused, except for a test', async () => {
        const receiver = await service.receiver()
        const { id } = await register(receiver.url, { event: 'product.created' })
        await product()
        const [delivered] = await log(id)
        await post(`/api/webhooks/${id}/deliveries/${delivered.id}/redeliver`)
        await receiver.called(2)
        const test = await ended(id, (await post(`/api/webhooks/${id}/test`)).id)
        await call('PATCH', `/api/webhooks/${id}`, { status: 'paused' })
        await post(`/api/webhooks/${id}/deliveries/${test.id}/redeliver`)
        await receiver.called(4)
        const path = `/api/webhooks/${id}/deliveries/${delivered.id}/redeliver`
        const { detail } = await refused(409, 'WEBHOOK_NOT_ACTIVE', 'POST', path)
        assert.match(detail, /paused/)
      })

      it('404 for another webhook’s or owner’s delivery, an unknown id and a malformed id (T-WH-07)', async () => {
        const { url } = await service.receiver()
        const [one, other] = [await register(url), await register(`${url}/2`)]
        const { id } = await post(`/api/webhooks/${one.id}/test`)
        for (const path of [
          `/api/webhooks/${other.id}/deliveries/${id}`,
          `/api/webhooks/${one.id}/deliveries/dlv_${'A'.repeat(22)}`,
          `/api/webhooks/${one.id}/deliveries/%00`,
        ]) {
          await refused(404, 'RESOURCE_NOT_FOUND', 'GET', path)
          await refused(404, 'RESOURCE_NOT_FOUND', 'POST', `${path}/redeliver`)
        }
        bearer = token(everyScope, 'cli_else')
        await refused(404, 'RESOURCE_NOT_FOUND', 'POST', `/api/webhooks/${one.id}/deliveries/${id}/redeliver`)
      })
    })

    it('202 for redelivering a pending delivery; replaces its schedule with a single new one', async () => {
      const receiver = Object.assign(await service.receiver(), { status: () => 500 })
      const { id } = await register(receiver.url, { event: 'product.created' })
      await product()
      await receiver.called(1)
      const [{ id: deliveryId }] = (await call('GET', `/api/webhooks/${id}/deliveries`)).json()
      // The new schedule adds at most two attempts, regardless of how many the old schedule has made.
      await post(`/api/webhooks/${id}/deliveries/${deliveryId}/redeliver`)
      const { attempts, status } = await ended(id, deliveryId)
      assert.equal(status, 'failed')
      assert.ok(attempts.length >= 2 && attempts.length <= 4, String(attempts.length))
      assert.deepEqual(
        attempts.map(({ attempt }: Json) => attempt),
        attempts.map((_: Json, n: number) => n + 1),
      )
      await post(`/api/webhooks/${id}/deliveries/${deliveryId}/redeliver`)
      assert.equal((await ended(id, deliveryId)).attempts.length, attempts.length + 2)
    })

    describe('POST /api/webhooks/{id}/replay', () => {
      it('202 with the number of deliveries in the range; sends each of them once more', async () => {
        const receiver = await service.receiver()
        const { id } = await register(receiver.url, { event: 'product.*' })
        const lamp = await product()
        await log(id, 1)
        await call('DELETE', `/products/${lamp.id}`)
        await log(id, 2)
        await ended(id, (await post(`/api/webhooks/${id}/test`)).id)
        const [since, until] = [60_000, 59_999].map((ms) => new Date(Date.now() - ms).toISOString())
        const response = await call('POST', `/api/webhooks/${id}/replay`, { since })
        assert.deepEqual([response.statusCode, response.json()], [202, { count: 2 }])
        assert.equal(response.headers.location, `/api/webhooks/${id}/deliveries`)
        await receiver.called(5)
        const all = await log(id, 3)
        assert.deepEqual(all.map(({ attempts }) => attempts.length).sort(), [1, 2, 2])
        assert.deepEqual(await post(`/api/webhooks/${id}/replay`, { since, event: 'product.deleted' }), { count: 1 })
        assert.deepEqual(await post(`/api/webhooks/${id}/replay`, { since, status: 'failed' }), { count: 0 })
        assert.deepEqual(await post(`/api/webhooks/${id}/replay`, { since, until }), {
          count: 0,
        })
        await receiver.called(6)
      })
    })

    describe('PATCH /api/webhooks/{id}', () => {
      it('200 for pausing the webhook; makes no calls until it is active again', async () => {
        const receiver = await service.receiver()
        const other = await service.receiver()
        const { id } = await register(receiver.url, { event: 'product.created' })
        const heard = await register(other.url, { event: 'product.created' })
        assert.equal((await call('PATCH', `/api/webhooks/${id}`, { status: 'paused' })).json().status, 'paused')
        await product()
        await log(heard.id)
        assert.deepEqual([receiver.calls.length, other.calls.length], [0, 1])
        await call('PATCH', `/api/webhooks/${id}`, { status: 'active' })
        await product()
        await receiver.called(1)
      })

      it('200 for reactivating a disabled webhook; clears its status reason and failingSince', async () => {
        const receiver = Object.assign(await service.receiver(), { status: (n: number) => (n === 1 ? 410 : 204) })
        const { id } = await register(receiver.url, { event: 'product.created' })
        await product()
        await log(id)
        const disabled = (await call('GET', `/api/webhooks/${id}`)).json()
        assert.deepEqual([disabled.status, disabled.statusReason], ['disabled', 'The endpoint responded with 410 Gone'])
        await refused(409, 'WEBHOOK_NOT_ACTIVE', 'POST', `/api/webhooks/${id}/replay`, {
          since: '2026-03-01T00:00:00Z',
        })
        const paused = (await call('PATCH', `/api/webhooks/${id}`, { description: 'x' })).json()
        assert.equal(paused.statusReason, 'The endpoint responded with 410 Gone')
        const enabled = (await call('PATCH', `/api/webhooks/${id}`, { status: 'active' })).json()
        assert.deepEqual([enabled.status, enabled.statusReason], ['active', undefined])
        const row = await service.db.read.selectFrom('webhooks').select('failingSince').where('id', '=', id).execute()
        assert.deepEqual(row, [{ failingSince: null }])
        const since = new Date(Date.now() - 60_000).toISOString()
        assert.deepEqual(await post(`/api/webhooks/${id}/replay`, { since }), { count: 1 })
        await receiver.called(2)
      })
    })

    describe('webhook.failing and webhook.disabled', () => {
      const since = '2026-03-01T00:00:00.000Z'
      const tell = async (id: string, kind: 'webhook.failing' | 'webhook.disabled') => {
        const { db, queue } = service
        const row = await db.read.selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
        const news = { kind, since, reason: 'http 500' }
        await db.write((tx) =>
          recordHealthEvent(tx, { queue, random: randomBytes }, row, news, new Date().toISOString()),
        )
      }

      it('are sent to the owner’s other webhooks, but never to the affected webhook or to other owners', async () => {
        const [about, all, exact, strange] = await Promise.all(Array.from({ length: 4 }, () => service.receiver()))
        const { id } = await register(about!.url, { event: '*' })
        const { secret } = await register(all!.url, { event: '*' })
        await register(exact!.url, { event: 'webhook.failing' })
        const mine = bearer
        bearer = token(everyScope, 'cli_else')
        await register(strange!.url, { event: '*' })
        bearer = mine
        await tell(id, 'webhook.failing')
        await Promise.all([all!.called(1), exact!.called(1)])
        await tell(id, 'webhook.disabled')
        await all!.called(2)
        const body = { webhookId: id, event: '*', since, reason: 'http 500' }
        for (const sent of all!.calls) {
          assert.deepEqual(JSON.parse(sent.bytes.toString()), body)
          assert.ok(isSigned(secret, sent))
        }
        const events = all!.calls.map(({ headers }) => headers['webhook-event'])
        assert.deepEqual(events, ['webhook.failing', 'webhook.disabled'])
        assert.deepEqual([about!.calls.length, exact!.calls.length, strange!.calls.length], [0, 1, 0])
      })
    })
  })
})
