import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { builtIn } from '../../src/catalog/service.ts'
import type { Queue } from '../../src/queue/queue.ts'
import { replayedAtOnce, replaySelected } from '../../src/webhooks/deliveries/replay.ts'
import { appOn, everyScope, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

type Json = ReturnType<typeof JSON.parse>
type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

forEachEngine((engine) => {
  describe('stored webhooks', () => {
    const jobs: { queue: string; payload: object }[] = []
    const enqueue: Queue['enqueue'] = async (_, queue, payload) => void jobs.push({ queue, payload })
    const service = appOn(engine, { prefixes: [''], queue: { enqueue, work: () => {}, stop: async () => {} } })
    let owner: string
    let owners = 0
    let count = 0
    beforeEach(() => {
      jobs.length = 0
      owner = `cli_owner${++owners}`
    })

    const call = (method: Method, url: string, payload?: object, more: { as?: string; headers?: object } = {}) => {
      const headers = more.headers as Record<string, string> | undefined
      const as = more.as ?? token(everyScope, owner)
      return service.send({ method, url, ...(payload && { payload }), ...(headers && { headers }), token: as })
    }
    const register = async (more: object = {}, as?: string): Promise<Json> => {
      const body = { event: 'report.*', callbackUrl: `http://127.0.0.1:9/${++count}`, ...more }
      const response = await call('POST', '/api/webhooks', body, { ...(as && { as }) })
      assert.equal(response.statusCode, 201, response.body)
      return response.json()
    }
    const refused = async (status: number, code: string, ...of: Parameters<typeof call>): Promise<Json> => {
      const response = await call(...of)
      assert.deepEqual([response.statusCode, response.json().errorCode], [status, code], response.body)
      return response.json()
    }
    const rowOf = (id: string) =>
      service.db.read.selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
    const entries = async (target: string) => {
      const found = service.db.read.selectFrom('auditEntries').select(['event', 'details']).where('target', '=', target)
      return (await found.orderBy('sequence').execute()).map(({ event, details }) => [
        event,
        JSON.parse(details ?? '{}'),
      ])
    }

    interface StoredDelivery {
      status?: 'pending' | 'delivered' | 'failed'
      type?: string
      audience?: string | null
      createdAt?: string
    }
    /** Adds deliveries, by default one second apart; returns their ids. */
    const deliver = async (webhookId: string, stored: StoredDelivery[]): Promise<string[]> => {
      const { callbackUrl: url } = await rowOf(webhookId)
      const rows = stored.map(({ status = 'failed', type = 'report.failed', audience = null, createdAt }, n) => {
        const at = createdAt ?? new Date(Date.parse('2026-02-01T00:00:00Z') + n * 1_000).toISOString()
        const id = `${++count}`.padStart(22, '0')
        const event = { id: `msg_${id}`, type, audience, body: '{}', callbackUrl: null, createdAt: at }
        const ended =
          status === 'pending' ? { nextAttemptAt: at, completedAt: null } : { nextAttemptAt: null, completedAt: at }
        const delivery = {
          id: `dlv_${id}`,
          ...{ eventId: event.id, eventType: type, lane: webhookId },
          webhookId,
          url,
          body: '{}',
          status,
          attempts: 0,
          createdAt: at,
        }
        return { event: { ...event, ownerClient: owner, ownerSubject: owner }, delivery: { ...delivery, ...ended } }
      })
      await service.db.write(async (tx) => {
        for (let at = 0; at < rows.length; at += 100) {
          const some = rows.slice(at, at + 100)
          await tx
            .insertInto('events')
            .values(some.map(({ event }) => event))
            .execute()
          await tx
            .insertInto('deliveries')
            .values(some.map(({ delivery }) => delivery))
            .execute()
        }
      })
      return rows.map(({ delivery }) => delivery.id)
    }
    const stateOf = async (id: string) => {
      const row = service.db.read.selectFrom('deliveries').select(['status', 'url']).where('id', '=', id)
      return { ...(await row.executeTakeFirstOrThrow()) }
    }

    describe('PATCH /api/webhooks/{id}', () => {
      it('200 with the given fields changed, all others unchanged, and a new entity tag', async () => {
        const { secret: _, ...before } = await register({ description: 'Ours', headers: { 'X-A': '1', 'X-B': '2' } })
        const path = `/api/webhooks/${before.id}`
        const patch = { event: '*', description: null, headers: { 'X-A': null, 'X-C': '3' }, payloadStyle: 'envelope' }
        const response = await call('PATCH', path, patch, { headers: { 'if-match': '"1"' } })
        const { description: __, ...stored } = before
        const after = { ...stored, event: '*', headers: { 'X-B': '2', 'X-C': '3' }, payloadStyle: 'envelope' }
        assert.deepEqual([response.statusCode, response.json(), response.headers.etag], [200, after, '"2"'])
        assert.deepEqual((await call('GET', path)).json(), after)
        assert.equal((await call('PATCH', path, { headers: null })).json().headers, undefined)
        assert.deepEqual((await entries(before.id)).slice(1), [
          ['webhook.updated', { changed: ['event', 'description', 'headers', 'payloadStyle'] }],
          ['webhook.updated', { changed: ['headers'] }],
        ])
      })

      it('412 for an outdated entity tag, and for all but one of ten concurrent requests (T-RACE-01)', async () => {
        const { id } = await register()
        const path = `/api/webhooks/${id}`
        const stale = { headers: { 'if-match': '"2"' } }
        await refused(412, 'PRECONDITION_FAILED', 'PATCH', path, { status: 'paused' }, stale)
        assert.equal((await rowOf(id)).status, 'active')
        const tries = Array.from({ length: 10 }, (_, n) =>
          call('PATCH', path, { description: `${n}` }, { headers: { 'if-match': '"1"' } }),
        )
        const statuses = (await Promise.all(tries)).map(({ statusCode }) => statusCode)
        assert.deepEqual(statuses.sort(), [200, ...Array(9).fill(412)])
        assert.equal((await rowOf(id)).revision, 2)
      })

      it('204 with return=minimal, 415 for a text/plain body, 400 for unknown members only with handling=strict', async () => {
        const { id } = await register()
        const minimal = { headers: { prefer: 'return=minimal', 'content-type': 'application/merge-patch+json' } }
        assert.equal((await call('PATCH', `/api/webhooks/${id}`, { description: 'x' }, minimal)).statusCode, 204)
        const text = { headers: { 'content-type': 'text/plain' } }
        await refused(415, 'UNSUPPORTED_MEDIA_TYPE', 'PATCH', `/api/webhooks/${id}`, { description: 'x' }, text)
        const patched = await call('PATCH', `/api/webhooks/${id}`, {
          secret: 'whsec_mine',
          ownerClient: 'cli_me',
          id: 'x',
        })
        assert.deepEqual([patched.statusCode, patched.json().id], [200, id])
        assert.equal((await rowOf(id)).ownerClient, owner)
        const strict = { headers: { prefer: 'handling=strict' } }
        await refused(400, 'INVALID_INPUT', 'PATCH', `/api/webhooks/${id}`, { secret: 'x' }, strict)
      })

      it('422 listing every violation, even if the webhook does not exist; 400 for a wrong type', async () => {
        const headers = { 'webhook-id': '1', gone: null }
        const wrong = { status: 'x', event: 'x', callbackUrl: 'nowhere', headers }
        const { errors } = await refused(422, 'VALIDATION_ERROR', 'PATCH', `/api/webhooks/whk_${'A'.repeat(22)}`, wrong)
        assert.deepEqual(
          errors.map(({ field }: Json) => field),
          ['status', 'event', 'callbackUrl', 'headers.webhook-id'],
        )
        const { id } = await register()
        for (const [status, code, patch] of [
          [422, 'VALIDATION_ERROR', { status: 'disabled' }],
          [422, 'VALIDATION_ERROR', { description: 'x'.repeat(501) }],
          [
            422,
            'VALIDATION_ERROR',
            { headers: Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`x-${n}`, '1'])) },
          ],
          [422, 'CALLBACK_URL_BLOCKED', { callbackUrl: 'http://10.0.0.1/' }],
          [400, 'INVALID_INPUT', { event: null }],
          [400, 'INVALID_INPUT', { status: 1 }],
          [400, 'INVALID_INPUT', { headers: { a: 1 } }],
        ] as const) {
          await refused(status, code, 'PATCH', `/api/webhooks/${id}`, patch)
        }
        assert.equal((await rowOf(id)).revision, 1)
      })

      it('409 if another webhook of the owner has the same event and address', async () => {
        const { event, callbackUrl } = await register()
        const { id } = await register()
        await refused(409, 'DUPLICATE_RESOURCE', 'PATCH', `/api/webhooks/${id}`, { event, callbackUrl })
        assert.equal((await rowOf(id)).revision, 1)
      })

      it('404 for another owner’s webhook (T-WH-07), 200 for an administrator', async () => {
        const { id } = await register()
        const path = `/api/webhooks/${id}`
        await refused(
          404,
          'RESOURCE_NOT_FOUND',
          'PATCH',
          path,
          { status: 'paused' },
          { as: token(everyScope, 'cli_else') },
        )
        const admin = { as: token(`${everyScope} admin`, 'cli_root') }
        assert.equal((await call('PATCH', path, { status: 'paused' }, admin)).statusCode, 200)
      })

      it('403 without the scope for the new events, or for the current events if the address changes', async () => {
        const { id, callbackUrl } = await register()
        const path = `/api/webhooks/${id}`
        const weak = { as: token('webhooks:write webhooks:read', owner) }
        await refused(403, 'ACCESS_DENIED', 'PATCH', path, { event: 'user.*' }, weak)
        assert.equal((await call('PATCH', path, { event: 'user.*' })).statusCode, 200)
        await refused(403, 'ACCESS_DENIED', 'PATCH', path, { callbackUrl: `${callbackUrl}/mine` }, weak)
        assert.equal((await call('PATCH', path, { status: 'paused' }, weak)).statusCode, 200)
      })

      it('200 for a new address; then limits the webhook’s events to the scopes of the request’s token', async () => {
        const { id, callbackUrl } = await register({ event: '*' })
        const weak = { as: token('webhooks:write', owner) }
        const stored: StoredDelivery[] = [{ audience: 'users:read' }, { audience: 'any' }, { audience: null }]
        const [users, any, own] = await deliver(
          id,
          stored.map((one) => ({ ...one, status: 'pending' })),
        )
        assert.equal(
          (await call('PATCH', `/api/webhooks/${id}`, { callbackUrl: `${callbackUrl}/2` }, weak)).statusCode,
          200,
        )
        assert.equal((await rowOf(id)).scopes, 'webhooks:write')
        assert.equal((await stateOf(users!)).status, 'failed')
        for (const one of [any, own])
          assert.deepEqual(await stateOf(one!), { status: 'pending', url: `${callbackUrl}/2` })
        const path = `/api/webhooks/${id}/deliveries/${users}/redeliver`
        await refused(403, 'PERMISSION_DENIED', 'POST', path)
        assert.deepEqual((await call('POST', `/api/webhooks/${id}/replay`, { since: '2026-01-01T00:00:00Z' })).json(), {
          count: 0,
        })
      })

      it('403 if an administrator subscribes another owner’s webhook to events that the owner may not read', async () => {
        const { id, callbackUrl } = await register({ event: '*' }, token('webhooks:write', owner))
        const admin = { as: token(`${everyScope} admin`, 'cli_root') }
        await refused(403, 'PERMISSION_DENIED', 'PATCH', `/api/webhooks/${id}`, { event: 'user.*' }, admin)
        assert.equal(
          (await call('PATCH', `/api/webhooks/${id}`, { callbackUrl: `${callbackUrl}/2` }, admin)).statusCode,
          200,
        )
        assert.equal((await rowOf(id)).scopes, 'webhooks:write')
      })

      it('200 for pausing the webhook; marks waiting deliveries as failed, but leaves completed ones unchanged', async () => {
        const { id } = await register()
        const [waiting, delivered] = await deliver(id, [{ status: 'pending' }, { status: 'delivered' }])
        assert.equal((await call('PATCH', `/api/webhooks/${id}`, { status: 'paused' })).statusCode, 200)
        assert.deepEqual(
          [(await stateOf(waiting!)).status, (await stateOf(delivered!)).status],
          ['failed', 'delivered'],
        )
      })
    })

    describe('GET /api/webhooks/{id}/deliveries', () => {
      const stored: StoredDelivery[] = [
        { status: 'failed', type: 'report.failed' },
        { status: 'delivered', type: 'report.completed' },
        { status: 'pending', type: 'report.completed' },
        { status: 'failed', type: 'report.completed' },
        { status: 'delivered', type: 'webhook.test' },
      ]

      it('200 with the deliveries that match the filters, newest or oldest first', async () => {
        const { id } = await register()
        const ids = await deliver(id, stored)
        const listed = async (query: string) => {
          const response = await call('GET', `/api/webhooks/${id}/deliveries?${query}`)
          assert.equal(response.statusCode, 200, response.body)
          return response.json().map((one: Json) => ids.indexOf(one.id))
        }
        for (const [query, expected] of [
          ['', [4, 3, 2, 1, 0]],
          ['sort=createdAt', [0, 1, 2, 3, 4]],
          ['status=failed', [3, 0]],
          ['status=pending', [2]],
          ['event=report.completed', [3, 2, 1]],
          ['event=report.completed&status=delivered', [1]],
          ['event=none', []],
          ['since=2026-02-01T00:00:02Z', [4, 3, 2]],
          ['until=2026-02-01T00:00:02.000Z', [1, 0]],
          ['since=2026-02-01T01:00:01%2B01:00&until=2026-02-01T00:00:03Z', [2, 1]],
          ['since=2026-02-02', []],
          ['since=2026-03-01&until=2026-02-01', []],
        ] as const) {
          assert.deepEqual(await listed(query), expected, query)
        }
        const narrowed = (await call('GET', `/api/webhooks/${id}/deliveries?fields=status,event&limit=1`)).json()
        assert.deepEqual(narrowed, [{ status: 'delivered', event: 'webhook.test' }])
      })

      it('200 in pages that neither skip nor repeat deliveries while others are added', async () => {
        const { id } = await register()
        // Several deliveries have the same timestamp, so their ids determine the order.
        const at = '2026-02-01T00:00:00.000Z'
        const ids = await deliver(
          id,
          [...stored, ...stored].map((one, n) => ({ ...one, ...(n < 6 && { createdAt: at }) })),
        )
        const seen: string[] = []
        let url: string | undefined = `/api/webhooks/${id}/deliveries?limit=3`
        let back: string | undefined
        while (url !== undefined) {
          const response = await call('GET', url)
          seen.push(...response.json().map((one: Json) => one.id))
          await deliver(id, [{ createdAt: '2026-02-03T00:00:00.000Z' }])
          url = /<([^>]+)>; rel="next"/.exec(String(response.headers.link))?.[1]
          back = /<([^>]+)>; rel="prev"/.exec(String(response.headers.link))?.[1] ?? back
        }
        assert.deepEqual([seen.length, new Set(seen).size, [...seen].sort()], [10, 10, [...ids].sort()])
        assert.deepEqual(
          (await call('GET', String(back))).json().map((one: Json) => one.id),
          seen.slice(6, 9),
        )
      })

      it('400 for an invalid parameter, and for a cursor from a list with a different filter', async () => {
        const { id } = await register()
        await deliver(id, stored)
        const path = `/api/webhooks/${id}/deliveries`
        const { headers } = await call('GET', `${path}?limit=1&status=failed`)
        const cursor = /cursor=([^>&]+)>; rel="next"/.exec(String(headers.link))?.[1]
        assert.ok(cursor)
        for (const query of [
          'status=gone',
          'sort=id',
          'since=yesterday',
          'until=2026-13-01',
          'since=2026-02-30',
          'limit=0',
          `cursor=${cursor}`,
        ]) {
          await refused(400, 'INVALID_INPUT', 'GET', `${path}?${query}`)
        }
      })
    })

    describe('POST /api/webhooks/{id}/replay', () => {
      /** Runs the pending replay jobs; returns the number of transactions that scheduled deliveries. */
      const replayed = async (some = jobs.splice(0)): Promise<number> => {
        let steps = 0
        const work = replaySelected({ db: service.db, now: () => service.clock.now, onAdded: () => steps++ })
        const { signal } = new AbortController()
        for (const { queue, payload } of some) {
          assert.equal(queue, 'webhook.replay')
          await work({ payload, attempt: 1, signal, finish: async () => {} })
        }
        return steps
      }
      const accepted = async (id: string, range: object): Promise<Json> => {
        const response = await call('POST', `/api/webhooks/${id}/replay`, range)
        assert.equal(response.statusCode, 202, response.body)
        return response.json()
      }
      const rounds = async (ids: readonly string[]) => {
        const found = service.db.read.selectFrom('deliveries').select(['status', 'round'])
        const rows = await found.where('id', 'in', ids).orderBy('id').execute()
        return rows.map(({ status, round }) => `${status} ${round}`)
      }

      it('202 with the number of replayed deliveries, at most the 500 oldest, and the start of the next range', async () => {
        const { id } = await register()
        const ids = await deliver(
          id,
          Array.from({ length: 503 }, () => ({})),
        )
        const since = '2026-01-01T00:00:00Z'
        const first = await accepted(id, { since })
        const next = new Date(Date.parse('2026-02-01T00:00:00Z') + 500_000).toISOString()
        assert.deepEqual(first, { count: 500, nextSince: next })
        assert.equal(await replayed(), 500 / replayedAtOnce)
        assert.deepEqual([(await stateOf(ids[499]!)).status, (await stateOf(ids[500]!)).status], ['pending', 'failed'])
        assert.deepEqual(await accepted(id, { since: next, status: 'failed' }), { count: 3 })
        await replayed()
        // All deliveries are pending, so there is nothing to replay.
        assert.deepEqual(await accepted(id, { since }), { count: 0 })
        assert.deepEqual(
          (await entries(id)).slice(1, 3).map(([event, { count: n }]) => [event, n]),
          [
            ['webhook.replayed', 500],
            ['webhook.replayed', 3],
          ],
        )
      })

      it('202; never splits deliveries with the same timestamp between two replays', async () => {
        const { id } = await register()
        const since = '2026-01-01T00:00:00.000Z'
        const [early, tied, late] = ['2026-02-01', '2026-02-02', '2026-02-03'].map((day) => `${day}T00:00:00.000Z`)
        const stored = (count: number, createdAt = '') => Array.from({ length: count }, () => ({ createdAt }))
        const ids = await deliver(id, [...stored(498, early), ...stored(4, tied)])
        assert.deepEqual(await accepted(id, { since }), { count: 498, nextSince: tied })
        await replayed()
        const sent = await Promise.all([497, 498].map(async (n) => (await stateOf(ids[n] as string)).status))
        assert.deepEqual(sent, ['pending', 'failed'])
        await deliver(id, [...stored(499, tied), ...stored(1, late)])
        const next = tied?.replace('.000Z', '.001Z')
        assert.deepEqual(await accepted(id, { since: tied }), { count: 503, nextSince: next })
        await replayed()
        assert.deepEqual(await accepted(id, { since: next }), { count: 1 })
      })

      it('202, but schedules each delivery only once despite repeated replays and a concurrent redelivery', async () => {
        const { id } = await register()
        const path = `/api/webhooks/${id}`
        const ids = await deliver(id, [{}, {}, {}])
        const since = '2026-01-01T00:00:00Z'
        assert.deepEqual(await accepted(id, { since }), { count: 3 })
        assert.deepEqual(await accepted(id, { since }), { count: 3 })
        const added = jobs.splice(0)
        assert.equal((await call('POST', `${path}/deliveries/${ids[0]}/redeliver`)).statusCode, 202)
        await replayed(added)
        await replayed(added)
        assert.deepEqual(await rounds(ids), ['pending 1', 'pending 1', 'pending 1'])
      })

      it('202, but schedules no delivery if the webhook is paused before the job runs', async () => {
        const { id } = await register()
        const ids = await deliver(id, [{}, {}])
        const range = { since: '2026-01-01T00:00:00Z' }
        assert.deepEqual(await accepted(id, range), { count: 2 })
        assert.equal((await call('PATCH', `/api/webhooks/${id}`, { status: 'paused' })).statusCode, 200)
        await replayed(jobs.filter(({ queue }) => queue === 'webhook.replay'))
        assert.deepEqual(await rounds(ids), ['failed 0', 'failed 0'])
      })

      it('422 for an invalid range or filter, 400 without a range, 404 for another owner, 409 if paused', async () => {
        const { id } = await register()
        const path = `/api/webhooks/${id}/replay`
        for (const [payload, field] of [
          [{ since: 'yesterday' }, 'since'],
          [{ since: '2026-02-01T23:59:60Z' }, 'since'],
          [{ since: '9999-12-31T23:59:59-01:00' }, 'since'],
          [{ since: '2026-02-01T00:00:00Z', until: '2026-02-01T00:00:00Z' }, 'until'],
          [{ since: '2026-02-01T00:00:00Z', event: 'report.*' }, 'event'],
          [{ since: '2026-02-01T00:00:00Z', status: 'pending' }, 'status'],
        ] as const) {
          const { errors } = await refused(422, 'VALIDATION_ERROR', 'POST', path, payload)
          assert.deepEqual(
            errors.map((one: Json) => one.field),
            [field],
          )
        }
        await refused(400, 'MISSING_REQUIRED_FIELD', 'POST', path, {})
        const range = { since: '2026-02-01T00:00:00Z' }
        await refused(404, 'RESOURCE_NOT_FOUND', 'POST', path, range, { as: token(everyScope, 'cli_else') })
        await call('PATCH', `/api/webhooks/${id}`, { status: 'paused' })
        await refused(409, 'WEBHOOK_NOT_ACTIVE', 'POST', path, range)
      })
    })

    it('the audit log contains the rotation of a secret, but not the secret', async () => {
      const { id } = await register()
      await call('POST', `/api/webhooks/${id}/rotate-secret`, { immediate: true })
      assert.deepEqual((await entries(id)).at(-1), ['webhook.secret_rotated', { immediate: true }])
      const all = JSON.stringify(await service.db.read.selectFrom('auditEntries').selectAll().execute())
      assert.ok(!/whsec_/.test(all))
    })
  })
})

describe('event types', () => {
  it('each have a JSON Schema that accepts the type’s example and rejects an empty object', () => {
    const ajv = formats.default(new Ajv2020({ strict: false }))
    const names = Object.keys(builtIn.events)
    for (const name of ['webhook.test', 'webhook.failing', 'webhook.disabled', 'user.created', 'book.deleted']) {
      assert.ok(names.includes(name), name)
    }
    for (const [name, { example, schema }] of Object.entries(builtIn.events)) {
      const check = ajv.compile(schema)
      assert.ok(check(example), `${name}: ${JSON.stringify(check.errors)}`)
      assert.ok(!check({}), name)
    }
  })
})
