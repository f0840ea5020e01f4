import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { AccessLine } from '../../src/http/server/access-log.ts'
import type { Database } from '../../src/storage/database.ts'
import { expireRequestLog, type RequestLogOptions, requestLog } from '../../src/traffic/request-log.ts'
import { type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const dayMs = 86_400_000
const admin = token('admin', 'cli_admin')

const lineOf = (requestId: string, line: Partial<AccessLine> = {}): AccessLine => ({
  ...{ requestId, method: 'GET', path: '/products', route: '/products', status: 200, ms: 1.5, bytes: 2 },
  ...{ address: '203.0.113.7', client: undefined, subject: undefined, errorCode: undefined },
  ...line,
})

forEachEngine((engine) => {
  describe('the request log (GET /api/requests)', () => {
    let db: Database
    let service: TestApp
    let log: ReturnType<typeof requestLog>
    let now = Date.parse('2026-03-01T12:00:00.000Z')
    let missing = 0
    let errors: unknown[] = []
    const logOn = (options: Partial<RequestLogOptions> = {}) =>
      requestLog({
        ...{ db, node: 'nod_a', rate: 100, now: () => now, random: randomBytes },
        onUnlogged: (count) => {
          missing += count
        },
        onError: (error) => errors.push(error),
        ...options,
      })

    before(async () => {
      db = await engine.database()
      log = logOn()
      service = await testApp(db, { onResponse: (line) => log.add(line) })
    })
    after(async () => {
      await service.app.close()
      await log.close()
      await db.close()
      assert.deepEqual(service.faults, [])
    })
    beforeEach(async () => {
      await log.flush()
      await db.write((tx) => tx.deleteFrom('requestLog').execute())
      missing = 0
      errors = []
    })
    const get = (url: string, by = admin) => service.send({ url, token: by })
    const stored = async () =>
      (await db.read.selectFrom('requestLog').select('requestId').orderBy('id').execute()).map((row) => row.requestId)
    const add = async (...lines: AccessLine[]) => {
      for (const line of lines) {
        log.add(line)
        now += 1
      }
      await log.flush()
    }

    it('200 for the request id of a response, and for the `instance` of a problem response', async () => {
      const problem = await service.send({
        url: '/products/99?q=secret',
        token: token('products:read', 'cli_x', 'cli_x'),
      })
      await log.flush()
      const { requestId, instance } = problem.json()
      for (const id of [requestId, instance, encodeURIComponent(instance)]) {
        const response = await get(`/api/requests/${id}`)
        assert.equal(response.statusCode, 200, response.body)
        const { durationMs, ...found } = response.json()
        assert.ok(durationMs > 0)
        assert.deepEqual(found, {
          ...{ requestId, at: new Date(now).toISOString(), node: 'nod_a', method: 'GET', path: '/products/99' },
          ...{
            status: 404,
            clientId: 'cli_x',
            subject: 'cli_x',
            address: '127.0.0.1',
            errorCode: 'RESOURCE_NOT_FOUND',
          },
        })
      }
    })

    it('404 for an unknown id, stating how long requests are stored', async () => {
      const response = await get('/api/requests/no-such-request')
      assert.equal(response.statusCode, 404)
      assert.match(response.json().detail, /kept for 24 hours; each node stores at most 100 a second/)
    })

    it('404 with a detail that names PLINTH_REQUEST_LOG_RATE if this setting is 0', async () => {
      const silent = await testApp(db, { requestLogRate: 0 })
      const response = await silent.send({ url: '/api/requests/no-such-request', token: admin })
      assert.match(response.json().detail, /PLINTH_REQUEST_LOG_RATE is 0/)
      await silent.app.close()
    })

    it('403 without the admin scope', async () => {
      assert.equal((await service.send({ url: '/api/requests' })).statusCode, 403)
      assert.equal((await service.send({ url: '/api/requests/some-request' })).statusCode, 403)
    })

    it('200 with the names of the client and the user', async () => {
      const user = await service.send({
        ...{ method: 'POST', url: '/users', payload: { name: 'Ada', email: 'ada@example.com' } },
      })
      const machine = { name: 'Partner', scopes: ['reports:read'], grants: ['client_credentials'] }
      const client = await service.send({ method: 'POST', url: '/api/clients', payload: machine, scopes: 'admin' })
      await add(lineOf('request-named', { client: client.json().id, subject: String(user.json().id) }))
      const { clientName, userName } = (await get('/api/requests/request-named')).json()
      assert.deepEqual([clientName, userName], ['Partner', 'Ada'])
    })

    it('pages through the requests, newest first, with filters', async () => {
      const client = { client: 'cli_1', subject: '7', address: '2001:db8::1' }
      await add(
        lineOf('request-1', client),
        lineOf('request-2', { ...client, status: 429 }),
        lineOf('request-3', { status: 404 }),
        lineOf('request-4', { status: 503, address: '192.0.2.1' }),
        lineOf('request-5', { client: 'cli_2', subject: 'cli_2' }),
      )
      const idsOf = async (query: string) => {
        const ids: string[] = []
        for (let url: string | undefined = `/api/requests?limit=2&fields=requestId${query}`; url; ) {
          const response = await get(url)
          assert.equal(response.statusCode, 200, response.body)
          ids.push(...response.json().map((row: { requestId: string }) => row.requestId.slice('request-'.length)))
          url = /<([^>]+)>; rel="next"/.exec(String(response.headers.link))?.[1]
        }
        return ids.join('')
      }
      assert.equal(await idsOf(''), '54321')
      assert.equal(await idsOf('&clientId=cli_1'), '21')
      assert.equal(await idsOf('&subject=7'), '21')
      assert.equal(await idsOf('&address=2001:db8::1'), '21')
      assert.equal(await idsOf('&status=4xx'), '32')
      assert.equal(await idsOf('&status=429'), '2')
      assert.equal(await idsOf('&status=5xx&address=192.0.2.1'), '4')
      assert.equal(await idsOf('&clientId=unknown'), '')
    })

    it('400 for a status that is neither a code nor a class, and for an invalid cursor', async () => {
      for (const status of ['4', '6xx', 'error', '20x']) {
        assert.equal((await get(`/api/requests?status=${status}`)).statusCode, 400, status)
      }
      assert.equal((await get('/api/requests?cursor=nonsense')).statusCode, 400)
    })

    it('prioritizes errors over writes and writes over reads, and reports how many requests it dropped', async () => {
      const small = logOn({ rate: 3 })
      for (const at of [1, 2, 3, 4]) small.add(lineOf(`read-${at}`))
      for (const at of [1, 2]) small.add(lineOf(`write-${at}`, { method: 'POST', status: 201 }))
      small.add(lineOf('error-1', { method: 'POST', status: 422 }))
      await small.close()
      assert.deepEqual((await stored()).toSorted(), ['error-1', 'write-1', 'write-2'])
      assert.equal(missing, 4)
    })

    it('stores every 5xx, but limits 4xx to half the rate if other requests need the other half', async () => {
      const small = logOn({ rate: 10 })
      const add = (count: number, id: string, line: Partial<AccessLine>) => {
        for (let at = 1; at <= count; at++) small.add(lineOf(`${id}-${at}`, line))
      }
      add(20, 'refused', { status: 404 })
      add(10, 'read', {})
      add(3, 'write', { method: 'POST', status: 201 })
      add(1, 'fault', { status: 500 })
      await small.flush()
      const countsOf = async () =>
        Object.fromEntries(
          [...Map.groupBy(await stored(), (id) => id.split('-')[0])].map(([kind, { length }]) => [kind, length]),
        )
      assert.deepEqual([await countsOf(), missing], [{ refused: 5, read: 1, write: 3, fault: 1 }, 24])
      await db.write((tx) => tx.deleteFrom('requestLog').execute())
      add(20, 'refused', { status: 404 })
      add(2, 'read', {})
      await small.close()
      assert.deepEqual(await countsOf(), { refused: 8, read: 2 })
    })

    it('stores failed requests for health checks and console files, but not successful ones', async () => {
      const file = { route: '/console/assets/:file' }
      await add(lineOf('probe-live', { route: '/livez' }), lineOf('probe-failed', { route: '/readyz', status: 503 }))
      await add(lineOf('console-file', file), lineOf('console-gone', { ...file, status: 404 }))
      assert.deepEqual(await stored(), ['probe-failed', 'console-gone'])
      assert.equal(missing, 0)
    })

    it('loses only the requests made while the database is down, and reports only the first error', async () => {
      let isDown = true
      const write: Database['write'] = (unit) => (isDown ? Promise.reject(new Error('down')) : db.write(unit))
      const cut = logOn({ db: { ...db, write } })
      for (const id of ['lost-1', 'lost-2']) {
        cut.add(lineOf(id))
        await cut.flush()
      }
      isDown = false
      cut.add(lineOf('found-1'))
      await cut.close()
      assert.deepEqual(await stored(), ['found-1'])
      assert.equal(missing, 2)
      assert.equal(errors.length, 1)
    })

    it('truncates long paths, and returns the newest request with a repeated id', async () => {
      await add(lineOf('repeated', { status: 500 }), lineOf('repeated', { path: `/${'x'.repeat(2_000)}` }))
      const { path, status } = (await get('/api/requests/repeated')).json()
      assert.deepEqual([path.length, status], [500, 200])
    })

    it('stores requests for 24 hours', async () => {
      await add(lineOf('request-old'))
      now += 3_600_000
      await add(lineOf('request-new'))
      assert.equal(await expireRequestLog(db, () => now + dayMs - 3_600_000), 1)
      assert.deepEqual(await stored(), ['request-new'])
    })
  })
})
