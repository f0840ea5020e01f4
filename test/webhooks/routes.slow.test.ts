import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import Fastify, { type FastifyInstance } from 'fastify'
import type { TSchema } from 'typebox'
import { inputValidator } from '../../src/http/policies/body-parsing.ts'
import { fromFramework } from '../../src/http/problems/framework-errors.ts'
import { Problem } from '../../src/http/problems/problem.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer } from '../../src/storage/encryption.ts'
import { reportEvents } from '../../src/webhooks/event-types.ts'
import { webhooks } from '../../src/webhooks/routes.ts'
import { webhookKeySet } from '../../src/webhooks/secret-routes.ts'
import { accountSecret, webhookKeys } from '../../src/webhooks/secrets.ts'
import type { WebhooksOptions } from '../../src/webhooks/webhooks-options.ts'
import { forEachEngine } from '../support/engines.ts'
import { noRules } from '../support/webhooks.ts'

const start = Date.parse('2026-03-01T12:00:00.000Z')
const seal = sealer(Buffer.alloc(32, 1), randomBytes)
const everyScope = ['webhooks:read', 'webhooks:write']

interface As {
  client?: string
  subject?: string
  scopes?: string[]
}

forEachEngine((engine) => {
  describe('webhook registration', () => {
    let db: Database
    let app: FastifyInstance
    let nowMs = start
    const left: unknown[] = []

    /** Registers the plugins with stubs for authentication and errors. Records the handlers' results in `left`. */
    async function appWith(options: Partial<WebhooksOptions> = {}): Promise<FastifyInstance> {
      const made = Fastify()
      made.decorateRequest('caller', null)
      made.addHook('onRequest', async (request) => {
        const { client = 'cli_a', subject = client, scopes = [] } = JSON.parse(String(request.headers['x-as'] ?? '{}'))
        request.caller = { caller: { clientId: client, subject, scopes: new Set([...everyScope, ...scopes]) } }
      })
      made.addHook('preSerialization', async (_request, _reply, payload) => {
        left.push(payload)
        return payload
      })
      made.setValidatorCompiler<TSchema>(({ schema, httpPart }) => inputValidator(schema, httpPart ?? 'body'))
      made.setErrorHandler((error, _request, reply) => {
        const problem = error instanceof Problem ? error : fromFramework(error)
        if (problem === undefined) return reply.code(500).send({ detail: String(error) })
        const { code, status, message, errors } = problem
        return reply.code(status).send({ code, detail: message, errors })
      })
      const policy = { allowHttp: true, allowCidrs: [] }
      const lookup = async () => [{ address: '93.184.215.14' }]
      const given = {
        events: reportEvents,
        access: noRules,
        versions: ['v1', 'v2'],
        db,
        // A stub, because these tests send no events.
        queue: { enqueue: async () => {}, work: () => {}, stop: async () => {} },
        sealer: seal,
        policy,
        lookup,
        now: () => nowMs,
        random: randomBytes,
        ...options,
      }
      await made.register(webhooks, given)
      await made.register(webhooks, { ...given, prefix: '/v1' })
      await made.register(webhookKeySet, { keys: await webhookKeys(db, seal) })
      return made
    }

    before(async () => {
      db = await engine.database()
      app = await appWith()
    })
    after(() => db.close())

    const as = (who: As) => ({ 'x-as': JSON.stringify(who) })
    const post = (payload: object | string, who: As = {}, on = app) =>
      on.inject({ method: 'POST', url: '/api/webhooks', payload, headers: as(who) })
    const get = (url: string, who: As = {}) => app.inject({ url, headers: as(who) })
    const drop = (id: string, who: As = {}, headers = {}) =>
      app.inject({ method: 'DELETE', url: `/api/webhooks/${id}`, headers: { ...as(who), ...headers } })

    let count = 0
    const fresh = (more: object = {}) => {
      count += 1
      return { event: 'report.completed', callbackUrl: `https://receiver.test/${count}`, ...more }
    }
    const someone = (): As => {
      count += 1
      return { client: `cli_${count}` }
    }

    describe('POST /api/webhooks', () => {
      it('409 for an owner’s 1,001st webhook, until the owner deletes one', async () => {
        const who = someone()
        const { id } = (await post(fresh(), who)).json()
        const row = await db.read.selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
        const copies = Array.from({ length: 998 }, (_, n) => ({
          ...row,
          id: `${id}${n}`,
          callbackUrl: `${row.callbackUrl}/${n}`,
        }))
        await db.write(async (tx) => {
          while (copies.length > 0) await tx.insertInto('webhooks').values(copies.splice(-100)).execute()
        })
        assert.equal((await post(fresh(), who)).statusCode, 201)
        const refused = await post(fresh(), who)
        assert.deepEqual([refused.statusCode, refused.json().code], [409, 'WEBHOOK_LIMIT_REACHED'])
        assert.equal((await post(fresh(), { ...who, subject: '42' })).statusCode, 201)
        assert.equal((await drop(id, who)).statusCode, 204)
        assert.equal((await post(fresh(), who)).statusCode, 201)
      })

      it('201 with Location, the webhook and its secret', async () => {
        const body = fresh({ description: ' Ours ', headers: { Authorization: 'Bearer x' }, payloadStyle: 'envelope' })
        const response = await post(body)
        assert.equal(response.statusCode, 201)
        const { id, secret, ...rest } = response.json()
        assert.match(id, /^whk_[\w-]{22}$/)
        assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
        assert.equal(response.headers.location, `/api/webhooks/${id}`)
        assert.deepEqual(rest, {
          ...body,
          description: 'Ours',
          ...{ version: 'v2', status: 'active' },
          createdAt: '2026-03-01T12:00:00.000Z',
        })
      })

      it('201 with the documented members only; an id and a status in the body are ignored', async () => {
        const body = fresh()
        const { id, secret, createdAt, ...rest } = (await post({ ...body, id: 'whk_mine', status: 'paused' })).json()
        assert.notEqual(id, 'whk_mine')
        assert.ok(secret && createdAt)
        assert.deepEqual(rest, { ...body, payloadStyle: 'plain', version: 'v2', status: 'active' })
      })

      it('201 with a Location under the request’s version prefix', async () => {
        const response = await app.inject({ method: 'POST', url: '/v1/api/webhooks', payload: fresh() })
        assert.equal(response.headers.location, `/v1/api/webhooks/${response.json().id}`)
      })

      it('201; encrypts the secret and the static headers at rest', async () => {
        const { id, secret } = (await post(fresh({ headers: { Authorization: 'Bearer visible' } }))).json()
        const row = await db.read.selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
        assert.ok(!JSON.stringify(row).includes(secret) && !JSON.stringify(row).includes('visible'))
        assert.equal(seal.open(row.secretSealed, `webhooks:${id}`), secret)
      })

      for (const event of ['report.failed', 'report.*', '*']) {
        it(`201 for the event ${event}`, async () => assert.equal((await post(fresh({ event }))).statusCode, 201))
      }

      for (const event of ['report.started', 'report', 'REPORT.*', '', 'constructor', '**']) {
        it(`422 listing the allowed events for ${JSON.stringify(event)}`, async () => {
          const response = await post(fresh({ event }))
          assert.equal(response.statusCode, 422)
          const { code, errors } = response.json()
          assert.equal(code, 'VALIDATION_ERROR')
          const message = 'must be one of report.completed, report.failed, report.*, *'
          assert.deepEqual(errors, [{ field: 'event', message }])
        })
      }

      it('400 for a missing member or a wrong type', async () => {
        const missing = await post({ event: '*' })
        assert.deepEqual([missing.statusCode, missing.json().code], [400, 'MISSING_REQUIRED_FIELD'])
        for (const wrong of [fresh({ event: 7 }), fresh({ headers: [] }), fresh({ payloadStyle: 1 }), []]) {
          const response = await post(wrong)
          assert.deepEqual([response.statusCode, response.json().code], [400, 'INVALID_INPUT'])
        }
      })

      it('422 listing all violations at once', async () => {
        const headers = { 'webhook-id': '1', 'a b': '1', 'a/b~': '1', ok: 'a\nb' }
        const bad = { event: 'x', callbackUrl: 'nowhere', description: 'a\nb', headers, payloadStyle: 'x' }
        const { code, errors } = (await post(bad)).json()
        assert.equal(code, 'VALIDATION_ERROR')
        assert.deepEqual(errors.map(({ field }: { field: string }) => field).sort(), [
          ...['callbackUrl', 'description', 'event', 'headers.a b', 'headers.a/b~', 'headers.ok'],
          ...['headers.webhook-id', 'payloadStyle'],
        ])
      })

      for (const name of ['Host', 'Webhook-Signature', 'content-type', 'User-Agent', 'Transfer-Encoding', 'Proxy-X']) {
        it(`422 for the static header ${name}`, async () => {
          const response = await post(fresh({ headers: { [name]: 'x' } }))
          assert.deepEqual([response.statusCode, response.json().code], [422, 'VALIDATION_ERROR'])
        })
      }

      it('422 for values that are too long, too many or invalid', async () => {
        const many = Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`x-${n}`, '1']))
        for (const more of [
          { description: 'x'.repeat(501) },
          { callbackUrl: `https://receiver.test/${'x'.repeat(2_048)}` },
          { headers: many },
          { headers: { x: 'x'.repeat(1_025) } },
          { description: 'a\u0000b' },
          { payloadStyle: 'fancy' },
        ]) {
          const response = await post(fresh(more))
          assert.deepEqual([response.statusCode, response.json().code], [422, 'VALIDATION_ERROR'])
        }
      })

      for (const callbackUrl of [
        'http://127.0.0.1/',
        'http://[::1]/',
        'ftp://receiver.test/',
        'https://u:p@host.test/',
      ]) {
        it(`422 CALLBACK_URL_BLOCKED with the reason for ${callbackUrl}`, async () => {
          const response = await post(fresh({ callbackUrl }))
          const { code, detail, errors } = response.json()
          assert.deepEqual([response.statusCode, code], [422, 'CALLBACK_URL_BLOCKED'])
          assert.equal(errors[0].field, 'callbackUrl')
          assert.ok(detail.endsWith(errors[0].message))
        })
      }

      it('422 CALLBACK_URL_BLOCKED for a host name that resolves to a private address', async () => {
        const inside = await appWith({ lookup: async () => [{ address: '10.0.0.1' }] })
        assert.equal((await post(fresh(), {}, inside)).json().code, 'CALLBACK_URL_BLOCKED')
      })

      it('409 if the owner has already registered the same event and address, 201 if only another owner has registered them', async () => {
        const body = fresh()
        assert.equal((await post(body)).statusCode, 201)
        const again = await post(body)
        assert.deepEqual([again.statusCode, again.json().code], [409, 'DUPLICATE_RESOURCE'])
        assert.equal((await post({ ...body, event: '*' })).statusCode, 201)
        assert.equal((await post(body, { client: 'cli_b' })).statusCode, 201)
        assert.equal((await post(body, { subject: '7' })).statusCode, 201)
      })
    })

    describe('GET /api/webhooks/{id}', () => {
      it('200 without the secret; the handler also returns revision and updatedAt, for ETag and Last-Modified', async () => {
        const { secret, ...created } = (await post(fresh({ headers: { 'X-A': '1' } }))).json()
        left.length = 0
        const response = await get(`/api/webhooks/${created.id}`)
        assert.equal(response.statusCode, 200)
        assert.deepEqual(response.json(), created)
        assert.deepEqual(left.length, 1)
        const { revision, updatedAt } = left[0] as { revision: number; updatedAt: string }
        assert.deepEqual([revision, updatedAt], [1, created.createdAt])
        assert.ok(secret && !response.body.includes('whsec_'))
      })

      it('404 for another owner’s webhook, identical to the response for an unknown id (T-WH-07)', async () => {
        const { id } = (await post(fresh())).json()
        const unknown = await get('/api/webhooks/whk_0000000000000000000000')
        assert.equal(unknown.statusCode, 404)
        for (const url of [`/api/webhooks/${id}`, `/api/webhooks/${id}/deliveries`]) {
          for (const who of [{ client: 'cli_b' }, { subject: '7' }]) {
            const other = await get(url, who)
            assert.deepEqual([other.statusCode, other.body], [404, unknown.body])
          }
        }
        assert.equal((await drop(id, { client: 'cli_b' })).body, unknown.body)
        assert.equal((await get(`/api/webhooks/${id}`)).statusCode, 200)
      })

      it('404 for malformed ids', async () => {
        for (const id of ['x', '%00', 'whk_%00', `whk_${'x'.repeat(90)}`, "'--", '__proto__']) {
          assert.equal((await get(`/api/webhooks/${id}`)).statusCode, 404)
        }
      })

      it('200 with ownerClient and ownerSubject for administrators, but not for the owner', async () => {
        const owner = { client: 'cli_app', subject: '42' }
        // Advance the clock, so that the next webhook is the newest in this suite.
        nowMs = start + 3_600_000
        const { id } = (await post(fresh(), owner)).json()
        const admin = { client: 'cli_root', scopes: ['admin'] }
        const seen = await get(`/api/webhooks/${id}`, admin)
        assert.equal(seen.statusCode, 200)
        const { ownerClient, ownerSubject } = seen.json()
        assert.deepEqual({ ownerClient, ownerSubject }, { ownerClient: 'cli_app', ownerSubject: '42' })
        const listed = (await get('/api/webhooks?limit=100', admin)).json()
        const of = listed.find((one: { id: string }) => one.id === id)
        assert.deepEqual([of.ownerClient, of.ownerSubject], ['cli_app', '42'])
        for (const url of [`/api/webhooks/${id}`, '/api/webhooks?limit=100']) {
          assert.doesNotMatch((await get(url, owner)).body, /owner/)
        }
        nowMs = start
      })
    })

    describe('GET /api/webhooks', () => {
      it("200 with the caller's own webhooks, newest first, without secrets", async () => {
        const me = someone()
        const ids: string[] = []
        for (let n = 0; n < 3; n += 1) {
          nowMs += 1_000
          ids.unshift((await post(fresh(), me)).json().id)
        }
        await post(fresh(), someone())
        const response = await get('/api/webhooks', me)
        assert.deepEqual(
          response.json().map(({ id }: { id: string }) => id),
          ids,
        )
        assert.ok(!response.body.includes('secret'))
      })

      it('200 in pages that can be followed forwards and backwards', async () => {
        const me = someone()
        for (let n = 0; n < 5; n += 1) await post(fresh(), me)
        const all = (await get('/api/webhooks', me)).json()
        const rel = (link: unknown, name: string) => new RegExp(`<([^>]*)>; rel="${name}"`).exec(String(link))?.[1]
        const pages = []
        let last = await get('/api/webhooks?limit=2', me)
        for (;;) {
          pages.push(last.json())
          const next = rel(last.headers.link, 'next')
          if (next === undefined) break
          last = await get(next, me)
        }
        assert.deepEqual(
          pages.map((one) => one.length),
          [2, 2, 1],
        )
        assert.deepEqual(pages.flat(), all)
        const middle = await get(rel(last.headers.link, 'prev')!, me)
        assert.deepEqual(middle.json(), pages[1])
        const first = await get(rel(middle.headers.link, 'prev')!, me)
        assert.deepEqual(first.json(), pages[0])
        assert.equal(rel(first.headers.link, 'prev'), undefined)
        assert.equal((await get(rel(first.headers.link, 'next')!, me)).body, JSON.stringify(pages[1]))
      })

      it('400 for a malformed limit or cursor, 200 for a limit above the maximum', async () => {
        for (const query of ['limit=0', 'limit=x', 'cursor=x', 'cursor=W10']) {
          const response = await get(`/api/webhooks?${query}`)
          assert.deepEqual([response.statusCode, response.json().code], [400, 'INVALID_INPUT'])
        }
        assert.equal((await get('/api/webhooks?limit=9999')).statusCode, 200)
      })
    })

    describe('GET /api/webhooks with filters', () => {
      const idsOf = async (query: string, who: As): Promise<string[]> => {
        const response = await get(`/api/webhooks?${query}`, who)
        assert.equal(response.statusCode, 200, response.body)
        return response.json().map(({ id }: { id: string }) => id)
      }

      it('200 with the webhooks of a status or event; `failing` selects active webhooks with failed calls', async () => {
        const me = someone()
        const [active, paused, disabled, failing] = await Promise.all(
          [{}, {}, {}, { event: 'report.*' }].map(async (more) => (await post(fresh(more), me)).json().id),
        )
        const set = (id: string, values: object) =>
          db.write((tx) => tx.updateTable('webhooks').set(values).where('id', '=', id).execute())
        const failingSince = '2026-03-01T11:00:00.000Z'
        await set(paused, { status: 'paused' })
        await set(disabled, { status: 'disabled', failingSince })
        await set(failing, { failingSince })
        assert.deepEqual((await idsOf('status=active', me)).sort(), [active, failing].sort())
        assert.deepEqual(await idsOf('status=paused', me), [paused])
        assert.deepEqual(await idsOf('status=disabled', me), [disabled])
        assert.deepEqual(await idsOf('status=failing', me), [failing])
        assert.deepEqual(await idsOf('event=report.*', me), [failing])
        assert.deepEqual(await idsOf('event=report.*&status=paused', me), [])
        assert.equal((await get('/api/webhooks?status=broken', me)).statusCode, 400)
      })

      it('200 with another owner’s webhooks for an administrator, but with none for other callers', async () => {
        const [one, other] = [someone(), someone()]
        const first = (await post(fresh(), one)).json().id
        const second = (await post(fresh(), { ...one, subject: '42' })).json().id
        await post(fresh(), other)
        const admin = { client: 'cli_root', scopes: ['admin'] }
        assert.deepEqual((await idsOf(`ownerClient=${one.client}`, admin)).sort(), [first, second].sort())
        assert.deepEqual(await idsOf(`ownerClient=${one.client}&ownerSubject=42`, admin), [second])
        assert.deepEqual(await idsOf(`ownerClient=${one.client}`, other), [])
      })

      it('400 for a cursor from a list with a different filter', async () => {
        const me = someone()
        for (let n = 0; n < 2; n += 1) await post(fresh(), me)
        const { link } = (await get('/api/webhooks?limit=1', me)).headers
        const cursor = /cursor=([^>&]*)/.exec(String(link))?.[1]
        assert.equal((await get(`/api/webhooks?limit=1&cursor=${cursor}`, me)).statusCode, 200)
        assert.equal((await get(`/api/webhooks?limit=1&status=active&cursor=${cursor}`, me)).statusCode, 400)
      })
    })

    describe('GET /api/webhooks/statistics', () => {
      const unknown = (n: number) => `whk_${String(n).padStart(22, '0')}`
      const statistics = async (query: string, who: As) => {
        const response = await get(`/api/webhooks/statistics${query}`, who)
        assert.equal(response.statusCode, 200, response.body)
        return response.json().map(({ webhookId }: { webhookId: string }) => webhookId)
      }

      it('200 with the requested webhooks that the caller can see', async () => {
        const [me, other] = [someone(), someone()]
        const [mine, another, theirs] = await Promise.all(
          [me, me, other].map(async (who) => (await post(fresh(), who)).json().id),
        )
        assert.deepEqual(await statistics(`?ids=${mine},${theirs},${unknown(1)}`, me), [mine])
        assert.deepEqual((await statistics('', me)).sort(), [mine, another].sort())
        const seen = await statistics(`?ids=${mine},${theirs}`, { client: 'cli_root', scopes: ['admin'] })
        assert.deepEqual(seen.sort(), [mine, theirs].sort())
      })

      it('400 for malformed ids, and for more than 100', async () => {
        for (const ids of ['', 'a,,b', "'", Array.from({ length: 101 }, (_, n) => unknown(n)).join()]) {
          assert.equal((await get(`/api/webhooks/statistics?ids=${encodeURIComponent(ids)}`)).statusCode, 400, ids)
        }
        const hundred = Array.from({ length: 100 }, (_, n) => unknown(n)).join()
        assert.deepEqual(await statistics(`?ids=${hundred}`, {}), [])
      })
    })

    describe('DELETE /api/webhooks/{id}', () => {
      it('204, then 404', async () => {
        const { id } = (await post(fresh())).json()
        const response = await drop(id)
        assert.deepEqual([response.statusCode, response.body], [204, ''])
        assert.equal((await drop(id)).statusCode, 404)
        assert.equal((await get(`/api/webhooks/${id}`)).statusCode, 404)
      })

      it('412 if a precondition fails, 204 with the current entity tag', async () => {
        const { id } = (await post(fresh())).json()
        for (const headers of [{ 'if-match': '"2"' }, { 'if-match': 'W/"1"' }, { 'if-none-match': '*' }]) {
          const response = await drop(id, {}, headers)
          assert.deepEqual([response.statusCode, response.json().code], [412, 'PRECONDITION_FAILED'])
        }
        const past = { 'if-unmodified-since': new Date(start - 60_000).toUTCString() }
        assert.equal((await drop(id, {}, past)).statusCode, 412)
        assert.equal((await drop(id, {}, { 'if-match': '"1"' })).statusCode, 204)
      })

      it('428 without If-Match if it is required, including for PATCH and rotate-secret', async () => {
        const strict = await appWith({ requireIfMatch: true })
        const { id } = (await post(fresh())).json()
        const url = `/api/webhooks/${id}`
        const payload = { description: 'x' }
        for (const method of ['PATCH', 'DELETE'] as const) {
          assert.equal((await strict.inject({ method, url, payload })).statusCode, 428)
        }
        const rotation = { method: 'POST' as const, url: `${url}/rotate-secret`, payload: {} }
        assert.equal((await strict.inject(rotation)).statusCode, 428)
        const tagged = { ...rotation, headers: { 'if-match': '"1"' } }
        assert.equal((await strict.inject(tagged)).statusCode, 200)
        assert.equal(
          (await strict.inject({ method: 'PATCH', url, payload, headers: { 'if-match': '"1"' } })).statusCode,
          412,
        )
        const fitting = { 'if-match': '"2"' }
        assert.equal((await strict.inject({ method: 'PATCH', url, payload, headers: fitting })).statusCode, 200)
        assert.equal((await strict.inject({ method: 'DELETE', url, headers: { 'if-match': '*' } })).statusCode, 204)
      })

      it('204, and marks the webhook’s pending deliveries as failed', async () => {
        const { id } = (await post(fresh())).json()
        await addDelivery(id, 'dlv_ended', '2026-03-01T12:00:00.000Z')
        assert.equal((await drop(id)).statusCode, 204)
        const row = await db.read
          .selectFrom('deliveries')
          .select(['status', 'nextAttemptAt'])
          .where('id', '=', 'dlv_ended')
          .executeTakeFirstOrThrow()
        assert.deepEqual({ ...row }, { status: 'failed', nextAttemptAt: null })
      })
    })

    /** Creates a delivery with one failed attempt. */
    async function addDelivery(webhookId: string, id: string, createdAt: string): Promise<void> {
      const eventId = `msg_${id}`
      const event = { ownerClient: 'cli_a', ownerSubject: 'cli_a', body: '{}', callbackUrl: null, createdAt }
      const from = { eventId, eventType: 'report.failed' }
      const target = { webhookId, lane: webhookId, url: 'https://receiver.test/', body: '{}' }
      const state = { status: 'pending', attempts: 1, nextAttemptAt: createdAt, createdAt, completedAt: null } as const
      const response = { durationMs: 12, statusCode: 500, error: 'http 500', responseStart: 'oops' }
      const attempt = { deliveryId: id, attempt: 1, startedAt: createdAt, ...response }
      await db.write(async (tx) => {
        await tx
          .insertInto('events')
          .values({ id: eventId, type: 'report.failed', ...event })
          .execute()
        await tx
          .insertInto('deliveries')
          .values({ id, ...from, ...target, ...state })
          .execute()
        await tx.insertInto('attempts').values(attempt).execute()
      })
    }

    describe('GET /api/webhooks/{id}/deliveries', () => {
      it('200 with an empty list for a new webhook', async () => {
        const { id } = (await post(fresh())).json()
        assert.deepEqual((await get(`/api/webhooks/${id}/deliveries`)).json(), [])
      })

      it('200 with at most `limit` deliveries, newest first, each with its attempts', async () => {
        const { id } = (await post(fresh())).json()
        const instants = ['2026-03-01T12:00:01.000Z', '2026-03-01T12:00:03.000Z', '2026-03-01T12:00:02.000Z']
        for (const [n, instant] of instants.entries()) await addDelivery(id, `dlv_${n}`, instant)
        const log = (await get(`/api/webhooks/${id}/deliveries?limit=2`)).json()
        const [newest, second] = [instants[1], instants[2]]
        const tried = { attempt: 1, durationMs: 12, statusCode: 500, error: 'http 500', responseStart: 'oops' }
        const { attempts, ...delivery } = log[0]
        assert.deepEqual(attempts, [{ ...tried, startedAt: newest }])
        const about = { id: 'dlv_1', eventId: 'msg_dlv_1', event: 'report.failed', status: 'pending' }
        assert.deepEqual(delivery, { ...about, nextAttemptAt: newest, createdAt: newest })
        assert.deepEqual([log.length, log[1].createdAt], [2, second])
      })
    })

    describe('GET /api/event-types', () => {
      it('200 with the name and an example of each type', async () => {
        const response = await get('/api/event-types')
        assert.equal(response.statusCode, 200)
        const kinds = response.json()
        assert.deepEqual(
          kinds.map(({ event }: { event: string }) => event),
          ['report.completed', 'report.failed'],
        )
        const { taskId } = kinds[0].example
        assert.deepEqual(kinds[0].example, {
          taskId,
          status: 'completed',
          resultUrl: `/api/reports/${taskId}/download`,
        })
        assert.deepEqual(kinds[1].example, { taskId, status: 'failed' })
      })
    })

    describe('GET /api/webhooks/secret', () => {
      it("200 with the caller's secret, the same every time", async () => {
        const me = someone()
        const { secret } = (await get('/api/webhooks/secret', me)).json()
        assert.match(secret, /^whsec_/)
        assert.equal((await get('/api/webhooks/secret', me)).json().secret, secret)
        assert.notEqual((await get('/api/webhooks/secret', { ...me, subject: '7' })).json().secret, secret)
      })

      it('creates only one secret for twenty concurrent first requests', async () => {
        const owner = { ownerClient: 'cli_race', ownerSubject: 'cli_race' }
        const requests = Array.from({ length: 20 }, () => accountSecret(db, seal, owner, () => nowMs, randomBytes))
        assert.equal(new Set(await Promise.all(requests)).size, 1)
      })
    })

    describe('GET /.well-known/webhook-keys.json', () => {
      it('200 with public members only', async () => {
        const { keys } = (await get('/.well-known/webhook-keys.json')).json()
        assert.equal(keys.length, 1)
        const { x, kid, ...rest } = keys[0]
        assert.match(x, /^[\w-]{43}$/)
        assert.match(kid, /^[\w-]{43}$/)
        assert.deepEqual(rest, { kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig' })
      })

      it('creates only one key during eight concurrent starts, and does not store the private key in plain text', async () => {
        await db.write((tx) => tx.deleteFrom('settings').where('name', '=', 'webhook-ed25519').execute())
        const made = await Promise.all(Array.from({ length: 8 }, () => webhookKeys(db, seal)))
        assert.equal(new Set(made.map(({ jwks }) => jwks.keys[0]!.x)).size, 1)
        const { value } = await db.read.selectFrom('settings').select('value').executeTakeFirstOrThrow()
        assert.ok(!value.includes('PRIVATE KEY'))
      })
    })
  })
})
