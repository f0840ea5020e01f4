import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { LightMyRequestResponse as Response } from 'fastify'
import { sql } from 'kysely'
import { deleteExpiredResponses } from '../../src/idempotency/store.ts'
import type { Database } from '../../src/storage/database.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { everyScope, type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'

const dayMs = 24 * 3_600_000
const parallel = 50
const rounds = 5

let keys = 0
const newKey = () => `key-${++keys}`

interface Post {
  url?: string
  payload?: object | string
  key?: string | string[]
  headers?: Record<string, string>
  bearer?: string
}

/** Sends a POST to a service; by default, the POST creates a product. */
const postTo = (service: TestApp, { url = '/products', payload, key, headers, bearer }: Post = {}) =>
  service.send({
    method: 'POST',
    url,
    payload: payload ?? { name: 'Lamp', price: 1 },
    headers: { ...(key !== undefined && { 'idempotency-key': key as string }), ...headers },
    ...(bearer && { token: bearer }),
  })

const replayed = ({ headers }: Response) => headers['idempotent-replayed']

/** Returns the parts of a response that a replay must repeat, without headers that differ for each request. */
const essence = ({ statusCode, headers, body }: Response) => {
  const { 'idempotent-replayed': _, 'x-request-id': __, date: ___, ...rest } = headers
  return { statusCode, headers: rest, body }
}

/** Returns the problem without the members that differ for each request. */
const problemOf = (answer: Response) => {
  const { requestId: _, timestamp: __, instance: ___, ...rest } = answer.json()
  return rest
}

forEachEngine((engine) => {
  describe('Idempotency-Key (T-RACE-03)', () => {
    let db: Database
    let service: TestApp
    /** Runs the service's transactions; tests replace it to simulate failures. */
    let writing: Database['write']
    before(async () => {
      db = await engine.database()
      writing = db.write
      service = await testApp({ ...db, write: (unit) => writing(unit) })
    })
    beforeEach(() => {
      writing = db.write
      service.faults.length = 0
    })
    after(async () => {
      await service.app.close()
      await db.close()
    })

    const post = (request: Post = {}) => postTo(service, request)
    const count = async (table: 'products' | 'users' | 'answers' | 'webhooks') => {
      const { rows } = await sql<{ n: number }>`select count(*) as n from ${sql.table(table)}`.execute(db.read)
      return Number(rows[0]?.n)
    }
    /** Sends the requests and returns how many rows they created. */
    const made = async (table: Parameters<typeof count>[0], run: () => Promise<unknown>) => {
      const before = await count(table)
      await run()
      return (await count(table)) - before
    }

    /** A valid request body for each POST operation. The test of all POST operations fails if an entry is missing. */
    const successes: Record<string, object | undefined> = {
      '/users': { name: 'Ada', email: 'every.post@example.com' },
      '/products': { name: 'Lamp', price: 1 },
      '/books': { title: 'Notes', author: 'Ada' },
      '/api/batch': { items: [{ method: 'POST', collection: 'products', body: { name: 'Lamp', price: 1 } }] },
      '/api/reports': { reportType: 'books', format: 'csv' },
      '/api/reports/{taskId}/cancel': undefined,
      '/api/reports/{taskId}/retry': undefined,
      '/api/webhooks': { event: '*', callbackUrl: 'http://127.0.0.1:9/every-post' },
      '/api/webhooks/{id}/test': {},
      '/api/webhooks/{id}/rotate-secret': {},
      '/api/webhooks/{id}/replay': { since: '2026-03-01T00:00:00Z' },
      '/api/webhooks/{id}/deliveries/{deliveryId}/redeliver': {},
      '/api/webhooks/secret/rotate': {},
      '/api/clients': { name: 'Machine', grants: ['client_credentials'], scopes: ['reports:read'] },
      '/api/clients/{id}/rotate-secret': {},
      '/api/keys': { name: 'Partner' },
      '/api/users/{id}/invitation': {},
      '/api/signing-keys/rotate': {},
      '/api/deleted/products/{id}/restore': undefined,
      '/api/deleted/books/{id}/restore': undefined,
      '/api/audit/verification': {},
      '/api/health/examination': {},
    }
    /**
     * Operations that require a job or a backup folder. Their replays are tested in
     * `test/backup/backups-api.slow.test.ts` and `test/jobs/routes.test.ts`.
     */
    const elsewhere = ['/api/backups', '/api/backups/{id}/verify', '/api/jobs/{id}/retry', '/api/jobs/{id}/cancel']
    const bearer = token(`${everyScope} admin`)
    const parents: Record<string, Post> = {
      '/api/clients': { url: '/api/clients', payload: successes['/api/clients'] as object },
      '/api/users': { url: '/users', payload: { name: 'Ada', email: 'parent@example.com' } },
      '/api/reports': { url: '/api/reports', payload: successes['/api/reports'] as object },
    }
    let hooks = 0
    /** Creates a webhook and a delivery to it; returns the path with their ids. */
    async function webhookPath(path: string): Promise<string> {
      const payload = { event: '*', callbackUrl: `http://127.0.0.1:9/parent${++hooks}` }
      const { id } = (await post({ url: '/api/webhooks', payload, bearer })).json()
      const { id: deliveryId } = (await post({ url: `/api/webhooks/${id}/test`, payload: {}, bearer })).json()
      return path.replace('{id}', id).replace('{deliveryId}', deliveryId)
    }
    /** Creates and deletes a row; returns the path with its id. */
    async function deletedPath(path: string): Promise<string> {
      const url = `/${path.split('/')[3]}`
      const { id } = (await post({ url, payload: successes[url] as object, bearer })).json()
      await service.send({ method: 'DELETE', url: `${url}/${id}`, token: bearer })
      return path.replace('{id}', id)
    }
    /** Returns the path with the id of an existing resource; for a retry, the id of a cancelled task. */
    async function pathOf(path: string): Promise<string> {
      const [parameter] = /\{\w+\}/.exec(path) ?? []
      if (parameter === undefined) return path
      if (path.startsWith('/api/webhooks')) return webhookPath(path)
      if (path.startsWith('/api/deleted')) return deletedPath(path)
      const { id, taskId = id } = (
        await post({ ...parents[path.slice(0, path.indexOf(parameter) - 1)], bearer })
      ).json()
      if (path.endsWith('/retry')) await post({ url: `/api/reports/${taskId}/cancel`, payload: undefined })
      return path.replace(parameter, taskId)
    }

    it('every POST outside /oauth accepts a key and replays the response', async () => {
      const document = (await service.send({ url: '/openapi.json' })).json()
      const paths = Object.keys(document.paths).filter((path) => document.paths[path].post && !/^\/oauth/.test(path))
      assert.deepEqual(paths.sort(), [...Object.keys(successes), ...elsewhere].sort())
      for (const [url, payload] of Object.entries(successes)) {
        const { parameters } = document.paths[url].post
        assert.ok(
          parameters.some(({ $ref = '' }) => $ref.endsWith('/Idempotency-Key')),
          url,
        )
        const request = { url: await pathOf(url), payload, key: newKey(), bearer }
        const first = await post(request)
        assert.ok(first.statusCode < 300, `${url}: ${first.body}`)
        const second = await post(request)
        assert.equal(replayed(second), 'true', url)
        assert.deepEqual(essence(second), essence(first))
      }
      // Wait for these checks to end, because the other tests expect no concurrent writes.
      for (const url of ['/api/audit/verification', '/api/health/examination']) {
        await eventually(`${url} has ended`, async () => {
          const { status } = (await service.send({ url, token: bearer })).json()
          return status === 'completed' || status === 'failed'
        })
      }
    })

    it('500 with a key if the handler bypasses idempotentWrite, because the response could not be replayed', async () => {
      const other = await testApp(db, {}, (app) => {
        app.post('/forgetful', { config: { scope: 'any' } }, async () => ({ done: true }))
      })
      assert.equal((await postTo(other, { url: '/forgetful' })).statusCode, 200)
      assert.equal((await postTo(other, { url: '/forgetful', key: newKey() })).statusCode, 500)
      assert.match(String(other.faults[0]), /does not respond through idempotentWrite/)
      await other.app.close()
    })

    it('201 for the first request; later requests get the same response marked as replayed', async () => {
      const key = newKey()
      const created = await made('products', async () => {
        const first = await post({ key })
        assert.equal(first.statusCode, 201)
        assert.equal(replayed(first), undefined)
        for (let again = 0; again < 3; again++) {
          const other = await post({ key })
          assert.equal(replayed(other), 'true')
          assert.deepEqual(essence(other), essence(first))
        }
      })
      assert.equal(created, 1)
    })

    it('201 each time without a key, and no response is stored', async () => {
      const kept = await made('answers', async () =>
        assert.equal(
          await made('products', async () => {
            for (let n = 0; n < 2; n++) assert.equal(replayed(await post()), undefined)
          }),
          2,
        ),
      )
      assert.equal(kept, 0)
    })

    it('201 is replayed unchanged, even if the resource has changed since', async () => {
      const key = newKey()
      const first = await post({ key })
      const url = first.headers.location as string
      await service.send({ method: 'PUT', url, payload: { name: 'Torch', price: 2 } })
      assert.deepEqual(essence(await post({ key })), essence(first))
      await service.send({ method: 'DELETE', url })
      assert.deepEqual(essence(await post({ key })), essence(first))
    })

    it('202 with the same Location and Retry-After in the replay; only one report task is created', async () => {
      const request = { url: '/api/reports', payload: { reportType: 'books', format: 'csv' }, key: newKey() }
      const first = await post(request)
      const second = await post(request)
      assert.equal(first.statusCode, 202)
      assert.deepEqual(essence(second), essence(first))
      const tasks = await db.read.selectFrom('tasks').selectAll().where('id', '=', first.json().taskId).execute()
      assert.equal(tasks.length, 1)
    })

    it('202 is replayed even if the token may not read the report’s resource; 403 if it lacks reports:write', async () => {
      const request = { url: '/api/reports', payload: { reportType: 'users', format: 'csv' }, key: newKey() }
      const first = await post(request)
      const second = await post({ ...request, bearer: token('reports:write') })
      assert.deepEqual(essence(second), essence(first))
      assert.equal((await post({ ...request, bearer: token('books:write') })).statusCode, 403)
    })

    it('201 for a webhook is replayed with its secret, which is encrypted at rest and never cacheable', async () => {
      const payload = { event: '*', callbackUrl: 'http://127.0.0.1:9/hook' }
      const request = { url: '/api/webhooks', payload, key: newKey() }
      const first = await post(request)
      assert.equal(first.statusCode, 201, first.body)
      const second = await post(request)
      assert.deepEqual(essence(second), essence(first))
      assert.equal(second.headers['cache-control'], 'no-store')
      assert.match(second.json().secret, /^whsec_/)
      const { rows } = await sql`select * from answers`.execute(db.read)
      assert.ok(rows.length > 0)
      assert.ok(!/whsec_|callbackUrl|127\.0\.0\.1|key-|cli_test|Lamp/.test(JSON.stringify(rows)))
    })

    it('quoted and unquoted spellings denote the same key', async () => {
      const key = newKey()
      const first = await post({ key })
      assert.equal(replayed(await post({ key: `"${key}"` })), 'true')
      const odd = newKey()
      await post({ key: `${odd}"\\` })
      assert.equal(replayed(await post({ key: `"${odd}\\"\\\\"` })), 'true')
      assert.equal(first.statusCode, 201)
    })

    it('bodies are compared by value, regardless of member order and white space', async () => {
      const key = newKey()
      await post({ key, payload: { name: 'Lamp', price: 1 } })
      const headers = { 'content-type': 'application/json' }
      assert.equal(replayed(await post({ key, headers, payload: '{ "price": 1.0, "name": " Lamp " }' })), 'true')
      assert.equal((await post({ key, payload: { name: 'Lamp', price: 2 } })).statusCode, 422)
    })

    it('422 IDEMPOTENCY_KEY_REUSED for a different body, without creating anything', async () => {
      const key = newKey()
      await post({ key })
      const created = await made('products', async () => {
        const answer = await post({ key, payload: { name: 'Torch', price: 1 } })
        assert.equal(answer.statusCode, 422)
        assert.equal(answer.json().errorCode, 'IDEMPOTENCY_KEY_REUSED')
        assert.equal(answer.json().errors[0].field, 'Idempotency-Key')
        assert.equal(replayed(answer), undefined)
      })
      assert.equal(created, 0)
      assert.equal(replayed(await post({ key })), 'true')
    })

    it('the same key may be used independently by each client and subject, and on each path', async () => {
      const key = newKey()
      const first = await post({ key })
      const others: Post[] = [
        { bearer: token(everyScope, 'cli_other') },
        { bearer: token(everyScope, 'cli_test', 'usr_7') },
        { url: '/v1/products' },
        { url: '/books', payload: { title: 'Lamp', author: 'One' } },
      ]
      for (const other of others) {
        const answer = await post({ key, ...other })
        assert.equal(answer.statusCode, 201)
        assert.equal(replayed(answer), undefined)
        assert.notDeepEqual(essence(answer), essence(first))
        assert.equal(replayed(await post({ key, ...other })), 'true')
      }
    })

    it('the same key is independent for two callers whose client id and subject concatenate to the same text', async () => {
      const key = newKey()
      await post({ key, bearer: token(everyScope, 'cli_a', 'b') })
      assert.equal(replayed(await post({ key, bearer: token(everyScope, 'cli_', 'ab') })), undefined)
    })

    const malformed: [what: string, key: string][] = [
      ['an empty value', ''],
      ['a value that is too long', 'k'.repeat(256)],
      ['a non-ASCII value', 'clé'],
      ['a control character', 'a\tb'],
      ['an unclosed quote', '"abc'],
      ['a quoted string with a parameter', '"abc";x=1'],
      ['an unknown escape', '"a\\bc"'],
      ['an empty quoted string', '""'],
    ]
    for (const [what, key] of malformed) {
      it(`400 INVALID_INPUT for ${what} as the key, before the body is validated`, async () => {
        for (const payload of [
          { name: 'Lamp', price: 1 },
          { name: '', price: -1 },
        ]) {
          const answer = await post({ key, payload })
          assert.equal(answer.statusCode, 400, answer.body)
          assert.equal(answer.json().errorCode, 'INVALID_INPUT')
          assert.deepEqual(
            answer.json().errors.map(({ field }: { field: string }) => field),
            ['Idempotency-Key'],
          )
        }
      })
    }

    it('400 for two keys, which would otherwise be joined into one', async () => {
      const answer = await post({ key: ['one', 'two'] })
      assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'])
    })

    it('201 with a key of 255 characters, including spaces and commas', async () => {
      const key = `a, b ${newKey()}`.padEnd(255, '~')
      assert.equal((await post({ key })).statusCode, 201)
      assert.equal(replayed(await post({ key })), 'true')
    })

    it('409 DUPLICATE_RESOURCE is replayed even after the conflict is resolved', async () => {
      const user = { name: 'Ada', email: `${newKey()}@example.com` }
      const taken = await post({ url: '/users', payload: user })
      const request = { url: '/users', payload: user, key: newKey() }
      const first = await post(request)
      assert.equal(first.statusCode, 409)
      await service.send({ method: 'DELETE', url: taken.headers.location as string })
      const second = await post(request)
      assert.equal(second.statusCode, 409)
      assert.equal(replayed(first), undefined)
      assert.equal(replayed(second), 'true')
      assert.deepEqual(problemOf(second), problemOf(first))
      assert.equal(second.json().requestId, second.headers['x-request-id'])
    })

    it('400, 403 and 422 leave the key available for a corrected request', async () => {
      const url = '/api/reports'
      const key = newKey()
      const refused: [Post, number][] = [
        [{ payload: { format: 'csv' } }, 400],
        [{ payload: { reportType: 'weather', format: 'csv' } }, 422],
        [{ payload: { reportType: 'users', format: 'csv' }, bearer: token('reports:write') }, 403],
      ]
      for (const [request, status] of refused) {
        assert.equal((await post({ url, key, ...request })).statusCode, status)
      }
      const answer = await post({ url, key, payload: { reportType: 'users', format: 'csv' } })
      assert.equal(answer.statusCode, 202)
      assert.equal(replayed(answer), undefined)
    })

    it('a request that fails with 5xx has no effect and is not stored, so a retry with the same key succeeds', async () => {
      const key = newKey()
      writing = (unit) =>
        db.write(async (tx) => {
          await unit(tx)
          throw new Error('the disk broke before the commit')
        })
      const created = await made('products', async () => {
        const failed = await post({ key })
        assert.equal(failed.statusCode, 500)
        assert.equal(failed.headers.location, undefined)
        writing = db.write
        const answer = await post({ key })
        assert.equal(answer.statusCode, 201)
        assert.equal(replayed(answer), undefined)
      })
      assert.equal(created, 1)
      assert.equal(service.faults.length, 1)
    })

    it('a response lost after the commit is replayed, without repeating the write', async () => {
      const key = newKey()
      writing = async (unit) => {
        await db.write(unit)
        throw new Error('the process died before it answered')
      }
      const created = await made('products', async () => {
        assert.equal((await post({ key })).statusCode, 500)
        writing = db.write
        const answer = await post({ key })
        assert.equal(answer.statusCode, 201)
        assert.equal(replayed(answer), 'true')
      })
      assert.equal(created, 1)
    })

    it('409 IDEMPOTENCY_IN_PROGRESS with Retry-After while the first request is in flight', async () => {
      const key = newKey()
      const gate = Promise.withResolvers<void>()
      const reached = Promise.withResolvers<void>()
      writing = async (unit) => {
        reached.resolve()
        await gate.promise
        return db.write(unit)
      }
      const first = post({ key })
      await reached.promise
      const during = await post({ key })
      assert.equal(during.statusCode, 409)
      assert.equal(during.json().errorCode, 'IDEMPOTENCY_IN_PROGRESS')
      assert.equal(during.headers['retry-after'], '1')
      const other = post({ key: newKey() })
      gate.resolve()
      assert.equal((await other).statusCode, 201)
      assert.equal((await first).statusCode, 201)
      const later = await post({ key })
      assert.deepEqual(essence(later), essence(await first))
      assert.equal(replayed(later), 'true')
    })

    it(`${parallel} identical concurrent requests to two nodes create exactly one resource, in each of ${rounds} rounds`, async () => {
      const second = await openDatabase(db.url)
      const node = await testApp(second)
      for (let round = 0; round < rounds; round++) {
        const key = newKey()
        const created = await made('users', async () => {
          const payload = { name: 'Ada', email: `${key}@example.com` }
          const requests = Array.from({ length: parallel }, (_, at) =>
            postTo(at % 2 ? service : node, { url: '/users', payload, key }),
          )
          const answers = await Promise.all(requests)
          for (const answer of answers) {
            if (answer.statusCode === 409) assert.equal(answer.json().errorCode, 'IDEMPOTENCY_IN_PROGRESS')
            else assert.equal(answer.statusCode, 201, answer.body)
          }
          const successes = answers.filter(({ statusCode }) => statusCode === 201)
          assert.equal(successes.filter((answer) => replayed(answer) === undefined).length, 1)
          assert.equal(new Set(successes.map(({ body }) => body)).size, 1)
        })
        assert.equal(created, 1)
      }
      assert.deepEqual(node.faults, [])
      await node.app.close()
      await second.close()
    })

    if (engine.name === 'postgres') {
      it('409 IDEMPOTENCY_IN_PROGRESS if another node holds the key for longer than the lock timeout', async () => {
        const second = await openDatabase(db.url)
        const gate = Promise.withResolvers<void>()
        const reached = Promise.withResolvers<void>()
        const slow: Database['write'] = (unit) =>
          second.write(async (tx) => {
            const value = await unit(tx)
            reached.resolve()
            await gate.promise
            return value
          })
        let held = second.write
        const node = await testApp({ ...second, write: (unit) => held(unit) })
        held = slow
        const key = newKey()
        const first = postTo(node, { key })
        await reached.promise
        const during = await post({ key })
        assert.deepEqual([during.statusCode, during.json().errorCode], [409, 'IDEMPOTENCY_IN_PROGRESS'])
        gate.resolve()
        assert.deepEqual(essence(await post({ key })), essence(await first))
        await node.app.close()
        await second.close()
      })
    }

    it('a key expires after 24 hours, even if its row has not been deleted yet', async () => {
      const key = newKey()
      await post({ key })
      service.clock.now += dayMs - 1
      assert.equal(replayed(await post({ key })), 'true')
      service.clock.now += 1
      const anew = await post({ key, payload: { name: 'Torch', price: 2 } })
      assert.equal(anew.statusCode, 201)
      assert.equal(replayed(anew), undefined)
      assert.equal(replayed(await post({ key, payload: { name: 'Torch', price: 2 } })), 'true')
      const swept = await deleteExpiredResponses(db, () => service.clock.now)
      assert.ok(swept > 0)
      assert.equal(await count('answers'), 1)
      assert.equal(replayed(await post({ key, payload: { name: 'Torch', price: 2 } })), 'true')
    })
  })
})
