import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import { folderResults } from '../../src/files/folder.ts'
import { reportKinds } from '../../src/mount-versions.ts'
import { generate } from '../../src/reports/generate/generate.ts'
import type { Database } from '../../src/storage/database.ts'
import { requestCounter } from '../../src/storage/request-counts.ts'
import { everyScope, type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { produceHere } from '../support/reports.ts'

const day = Date.parse('2026-01-01T00:00:00.000Z')
const iso = (ms: number) => new Date(ms).toISOString()

forEachEngine((engine) => {
  let db: Database
  let test: TestApp
  let folder: string

  before(async () => {
    db = await engine.database()
    test = await testApp(db)
    folder = mkdtempSync(join(tmpdir(), 'plinth-kinds-'))
    await fill()
  })
  after(async () => {
    await test.app.close()
    await db.close()
    rmSync(folder, { recursive: true, force: true })
    assert.deepEqual(test.faults, [])
  })

  async function fill(): Promise<void> {
    const common = (n: number) => ({ revision: 1, createdAt: iso(day + n * 3_600_000), updatedAt: iso(day) })
    const book = (n: number, genre: string | null, author: string) => ({
      ...{ title: `Book ${n}`, titleKey: `book ${n}`, author, authorKey: author.toLowerCase() },
      ...{ genre, genreKey: genre?.toLowerCase() ?? null, ...common(n) },
    })
    const books = [
      book(0, 'Poetry', 'Ada'),
      book(1, 'poetry', 'Bob'),
      book(2, null, 'ADA'),
      book(30, 'Drama', "O'Brien; --"),
    ]
    const product = (n: number, price: number) => ({ name: `P${n}`, nameKey: `p${n}`, price, ...common(n) })
    const products = [5, 9.99, 10, 99.5, 0.1, 0.2, 2_000].map((price, n) => product(n, price))
    const user = {
      ...{ name: 'Eve', nameKey: 'eve', email: 'eve@example.com', emailKey: 'eve@example.com' },
      ...{ address: 'Secret Street 1', phone: '123', ...common(0) },
    }
    await db.write(async (tx) => {
      await tx.insertInto('books').values(books).execute()
      await tx.insertInto('products').values(products).execute()
      await tx.insertInto('users').values(user).execute()
    })
  }

  const taskCount = async () => (await db.read.selectFrom('tasks').select('id').execute()).length
  const requestReport = (payload: object, scopes = everyScope, clientId = 'cli_a') =>
    test.send({ method: 'POST', url: '/api/reports', payload, token: token(scopes, clientId) })

  /** Requests a report as NDJSON, generates it, and returns its rows. */
  async function rowsOf(
    reportType: string,
    parameters?: object,
    scopes?: string,
    clientId?: string,
  ): Promise<Record<string, unknown>[]> {
    const response = await requestReport(
      { reportType, format: 'ndjson', ...(parameters && { parameters }) },
      scopes,
      clientId,
    )
    assert.equal(response.statusCode, 202, response.body)
    const { taskId } = response.json()
    const results = folderResults(folder)
    const queue = { enqueue: async () => {}, work: () => {}, stop: async () => {} }
    const services = { db, queue, results, kinds: reportKinds(builtIn), now: () => day, random: randomBytes }
    const job = { payload: { taskId }, attempt: 1, signal: new AbortController().signal, finish: async () => {} }
    await generate({ ...services, produce: produceHere(results, db.url), resultSeconds: 60 })(job)
    const lines = readFileSync(join(folder, `${taskId}-1`), 'utf8')
      .split('\n')
      .slice(0, -1)
    return lines.map((line) => JSON.parse(line))
  }

  describe('report parameters', () => {
    const titles = async (parameters: object) => (await rowsOf('books', parameters)).map(({ title }) => title)

    it('202 for `from` (inclusive) and `to` (exclusive), as instants or dates', async () => {
      assert.deepEqual(await titles({ from: '2026-01-01T01:00:00Z' }), ['Book 1', 'Book 2', 'Book 30'])
      assert.deepEqual(await titles({ to: '2026-01-01T02:00:00.000+01:00' }), ['Book 0'])
      assert.deepEqual(await titles({ from: '2026-01-02', to: '2026-01-03' }), ['Book 30'])
    })

    it('202 for filters by text (case-insensitive, as in lists) and by numeric bounds', async () => {
      assert.deepEqual(await titles({ filter: { genre: 'POETRY' } }), ['Book 0', 'Book 1'])
      assert.deepEqual(await titles({ filter: { genre: 'poetry', author: 'bob' } }), ['Book 1'])
      assert.deepEqual(await titles({ filter: { author: "o'brien; --" } }), ['Book 30'])
      const rows = await rowsOf('products', { filter: { minPrice: 9.99, maxPrice: 100 } })
      assert.deepEqual(
        rows.map(({ price }) => price),
        [9.99, 10, 99.5],
      )
    })

    it('202 for `fields`: the report has only these columns, in this order', async () => {
      const [first] = await rowsOf('books', { fields: ['author', 'id'], filter: { genre: 'drama' } })
      assert.deepEqual(Object.entries(first ?? {}), [
        ['author', "O'Brien; --"],
        ['id', 4],
      ])
      assert.deepEqual(Object.keys((await rowsOf('books', { fields: 'title, id' }))[0] ?? {}), ['title', 'id'])
    })

    it('202 for `sort` by several fields, each in either direction', async () => {
      const rows = await rowsOf('books', { sort: ['author', '-createdAt'] })
      assert.deepEqual(
        rows.map(({ title }) => title),
        ['Book 2', 'Book 0', 'Book 1', 'Book 30'],
      )
      assert.deepEqual(await titles({ sort: '-id' }), ['Book 30', 'Book 2', 'Book 1', 'Book 0'])
    })

    it('422 listing every invalid parameter; no task is created', async () => {
      const before = await taskCount()
      const response = await requestReport({
        ...{ reportType: 'books', format: 'csv' },
        parameters: {
          ...{ from: 'yesterday', to: '2026-13-01', sort: ['shelf'], fields: ['title', 'secret', 'title'] },
          ...{ filter: { genre: 3, phone: 'x' }, limit: 5 },
        },
      })
      assert.equal(response.statusCode, 422)
      assert.equal(response.json().errorCode, 'VALIDATION_ERROR')
      assert.deepEqual(
        response.json().errors.map(({ field }: { field: string }) => field),
        [
          ...['parameters.from', 'parameters.to', 'parameters.filter.genre', 'parameters.filter.phone'],
          ...['parameters.fields', 'parameters.fields', 'parameters.sort', 'parameters.limit'],
        ],
      )
      const messages = JSON.stringify(response.json().errors)
      assert.match(messages, /is unknown: use one of genre, author/)
      assert.match(messages, /has the unknown name shelf: use id, title, author, genre, createdAt, updatedAt/)
      const empty = await requestReport({
        reportType: 'books',
        format: 'csv',
        parameters: { from: '2026-02-01', to: '2026-01-01' },
      })
      assert.deepEqual(empty.json().errors, [{ field: 'parameters.to', message: 'must be later than `from`' }])
      const moment = await requestReport({ reportType: 'inventory', format: 'csv', parameters: { from: '2026-02-01' } })
      assert.deepEqual(
        moment.json().errors.map(({ field }: { field: string }) => field),
        ['parameters.from'],
      )
      assert.equal(await taskCount(), before)
    })

    it('422 for dates and times that do not exist, and for an instant where only a day is allowed', async () => {
      const wrong: [reportType: string, from: string][] = [
        ...['2026-02-30', '2026-01-01T24:00:00Z', '2026-02-29T00:00:00Z'].map((at): [string, string] => ['books', at]),
        ...['2026-02-30', '2026-02-01T00:00:00Z'].map((at): [string, string] => ['activity', at]),
      ]
      for (const [reportType, from] of wrong) {
        const response = await requestReport({ reportType, format: 'csv', parameters: { from } })
        assert.deepEqual([response.statusCode, response.json().errors?.[0].field], [422, 'parameters.from'], from)
      }
      const leap = await requestReport({ reportType: 'books', format: 'csv', parameters: { from: '2024-02-29' } })
      assert.equal(leap.json().parameters.from, '2024-02-29T00:00:00.000Z')
    })

    it('400 for a parameter of the wrong JSON type', async () => {
      for (const parameters of [[], 'x', { from: 5 }, { filter: 'genre' }, { filter: { genre: {} } }, { sort: 7 }]) {
        const response = await requestReport({ reportType: 'books', format: 'csv', parameters })
        assert.deepEqual(
          [response.statusCode, response.json().errorCode],
          [400, 'INVALID_INPUT'],
          JSON.stringify(parameters),
        )
      }
    })

    it('422, and no task, if the report has more rows than its format allows; 202 for exactly the maximum', async () => {
      const before = await taskCount()
      const many = Array.from({ length: 1_000 }, (_, n) => ({
        ...{ name: 'Many', nameKey: 'many', price: 3, revision: 1, createdAt: iso(day), updatedAt: iso(day + n) },
      }))
      for (let at = 0; at < 20; at++) await db.write((tx) => tx.insertInto('products').values(many).execute())
      const response = await requestReport({ reportType: 'products', format: 'pdf' })
      assert.equal(response.statusCode, 422)
      assert.deepEqual(response.json().errors, [
        {
          field: 'format',
          message: 'has at most 20,000 rows, and this report has more: narrow it, or choose another format',
        },
      ])
      assert.equal(await taskCount(), before)
      const parameters = { filter: { name: 'MANY' } }
      assert.equal((await requestReport({ reportType: 'products', format: 'pdf', parameters })).statusCode, 202)
      assert.equal(await taskCount(), before + 1)
      await db.write((tx) => tx.deleteFrom('products').where('name', '=', 'Many').execute())
    })
  })

  describe('the users report', () => {
    it('422 for fields that are hidden from some callers; the report never contains them (T-API-04)', async () => {
      assert.deepEqual(Object.keys((await rowsOf('users'))[0] ?? {}), ['id', 'name', 'email', 'createdAt', 'updatedAt'])
      for (const parameters of [{ fields: ['address'] }, { sort: ['phone'] }, { filter: { phone: '123' } }]) {
        assert.equal((await requestReport({ reportType: 'users', format: 'csv', parameters })).statusCode, 422)
      }
    })

    it('403 without users:read', async () => {
      const response = await requestReport({ reportType: 'users', format: 'csv' }, 'reports:write products:write')
      assert.deepEqual([response.statusCode, response.json().errorCode], [403, 'ACCESS_DENIED'])
    })
  })

  describe('the inventory report', () => {
    it('counts books by genre, and products by price range', async () => {
      assert.deepEqual(await rowsOf('inventory'), [
        { dimension: 'genre', name: '(none)', items: 1 },
        { dimension: 'genre', name: 'Drama', items: 1 },
        { dimension: 'genre', name: 'Poetry', items: 2 },
        band('0 to 9.99', 4, 0.1, 3.82, 9.99, 15.29),
        band('10 to 49.99', 1, 10, 10, 10, 10),
        band('50 to 99.99', 1, 99.5, 99.5, 99.5, 99.5),
        band('1000 and more', 1, 2_000, 2_000, 2_000, 2_000),
      ])
      const bands = await rowsOf('inventory', { filter: { dimension: 'priceBand' }, fields: ['name', 'items'] })
      assert.deepEqual(bands[0], { name: '0 to 9.99', items: 4 })
    })

    const band = (name: string, items: number, ...prices: [number, number, number, number]) => ({
      ...{ dimension: 'priceBand', name, items, lowestPrice: prices[0], averagePrice: prices[1] },
      ...{ highestPrice: prices[2], totalPrice: prices[3] },
    })
  })

  describe('the activity report', () => {
    it("counts requests per client and day: the caller's own, or everyone's for an administrator", async () => {
      let now = day
      const counter = requestCounter({ db, now: () => now, onError: (error) => test.faults.push(error) })
      for (const client of ['cli_a', 'cli_a', 'cli_b']) counter.count(client)
      await counter.flush()
      counter.count('cli_a')
      await counter.flush()
      now += 86_400_000
      counter.count('cli_a')
      await counter.close()
      const own = [
        { day: '2026-01-01', clientId: 'cli_a', requests: 3 },
        { day: '2026-01-02', clientId: 'cli_a', requests: 1 },
      ]
      assert.deepEqual(await rowsOf('activity'), own)
      assert.deepEqual(await rowsOf('activity', { filter: { clientId: 'cli_b' } }), [])
      assert.deepEqual(await rowsOf('activity', { from: '2026-01-02' }), own.slice(1))
      const all = await rowsOf('activity', { to: '2026-01-02' }, `${everyScope} admin`)
      assert.deepEqual(all, [own[0], { day: '2026-01-01', clientId: 'cli_b', requests: 1 }])
      const response = await requestReport({
        reportType: 'activity',
        format: 'csv',
        parameters: { from: '2026-01-02T10:00:00Z' },
      })
      assert.match(response.body, /must be a day such as/)
    })

    it('includes counts that were stored only on the second attempt', async () => {
      const errors: unknown[] = []
      let fails = true
      const write: Database['write'] = (unit) => (fails ? Promise.reject(new Error('full')) : db.write(unit))
      const counter = requestCounter({ db: { ...db, write }, now: () => 0, onError: (error) => errors.push(error) })
      counter.count('cli_c')
      await counter.flush()
      counter.count('cli_c')
      fails = false
      await counter.close()
      assert.match(String(errors), /full/)
      assert.deepEqual(await rowsOf('activity', {}, everyScope, 'cli_c'), [
        { day: '1970-01-01', clientId: 'cli_c', requests: 2 },
      ])
    })
  })

  describe('the deliveries report', () => {
    it("lists the attempts for the caller's webhooks, including those for other clients' events; requires webhooks:read", async () => {
      const at = iso(day)
      for (const [owner, causer] of [
        ['cli_a', 'cli_b'],
        ['cli_b', 'cli_a'],
      ] as const) {
        const event = { ownerClient: causer, ownerSubject: causer, body: '{}', callbackUrl: null, createdAt: at }
        const delivery = { eventId: `msg_${owner}`, webhookId: null, url: 'https://x.test/', body: '{}' }
        const owned = { ownerClient: owner, ownerSubject: owner }
        const attempt = { deliveryId: `dlv_${owner}`, startedAt: at, durationMs: 12, responseStart: null }
        await db.write(async (tx) => {
          await tx
            .insertInto('events')
            .values({ ...event, id: `msg_${owner}`, type: 'report.completed' })
            .execute()
          const status = {
            status: 'delivered',
            attempts: 2,
            nextAttemptAt: null,
            createdAt: at,
            completedAt: at,
          } as const
          await tx
            .insertInto('deliveries')
            .values({ ...delivery, ...owned, ...status, id: `dlv_${owner}` })
            .execute()
          await tx
            .insertInto('attempts')
            .values([
              { ...attempt, attempt: 1, statusCode: null, error: 'timeout' },
              { ...attempt, attempt: 2, statusCode: 204, error: null },
            ])
            .execute()
        })
      }
      const common = {
        deliveryId: 'dlv_cli_a',
        event: 'report.completed',
        eventId: 'msg_cli_a',
        url: 'https://x.test/',
      }
      assert.deepEqual(await rowsOf('deliveries'), [
        { ...common, attempt: 1, startedAt: at, durationMs: 12, error: 'timeout', deliveryStatus: 'delivered' },
        { ...common, attempt: 2, startedAt: at, durationMs: 12, statusCode: 204, deliveryStatus: 'delivered' },
      ])
      assert.equal((await rowsOf('deliveries', {}, `${everyScope} admin`)).length, 2)
      assert.equal((await requestReport({ reportType: 'deliveries', format: 'csv' }, 'reports:write')).statusCode, 403)
    })
  })

  describe('GET /api/report-types', () => {
    it('200 with one type per resource, then inventory, activity and deliveries', async () => {
      const response = await test.send({ method: 'GET', url: '/api/report-types' })
      const types = response.json()
      assert.deepEqual(
        types.map(({ reportType }: { reportType: string }) => reportType),
        ['users', 'products', 'books', 'inventory', 'activity', 'deliveries'],
      )
      const [users, products] = types
      assert.equal(users.scope, 'users:read')
      assert.deepEqual(Object.keys(products.parameters.properties), ['from', 'to', 'filter', 'fields', 'sort'])
      assert.deepEqual(products.parameters.properties.filter.properties, {
        ...{ name: { type: 'string' }, minPrice: { type: 'number' }, maxPrice: { type: 'number' } },
      })
    })
  })
})
