import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import fc from 'fast-check'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

/** SEED reproduces the inputs of a failed run; RUNS is the number of inputs. */
const seed = Number(process.env.SEED ?? 20_261_121)
const numRuns = Number(process.env.RUNS ?? 60)
/** A limit on CPU time, far above what any input needs even with garbage collection; more time means a hang. */
const maxMs = 500

const paths = ['/products', '/users', '/books', '/api/reports', '/api/webhooks']
const path = fc.constantFrom(...paths)
const one = fc.constantFrom('/products/1', '/users/1', '/books/1')
const list = fc.constantFrom('/products', '/users', '/books')

/** Characters that a header may contain: Latin-1 only, no line breaks. */
const headerText = fc.oneof(
  fc.string({
    unit: fc
      .integer({ min: 0x20, max: 0xff })
      .filter((code) => code !== 0x7f)
      .map((code) => String.fromCharCode(code)),
    maxLength: 300,
  }),
  fc.constantFrom('', ',', ';', '"', 'a'.repeat(8_000), ','.repeat(8_000), ' ;'.repeat(4_000), '"\\'.repeat(4_000)),
)
const weight = fc.oneof(fc.constant(''), fc.constantFrom(';q=0', ';q=0.5', '; Q=1', ';q=', ';q=-1', ';q=x', ';q=1e9'))
const listOf = (entry: fc.Arbitrary<string>) => fc.array(entry, { maxLength: 12 }).map((all) => all.join(','))
const weighted = (...names: string[]) =>
  fc.oneof(headerText, listOf(fc.tuple(fc.constantFrom(...names), weight).map((parts) => parts.join(''))))

const tag = fc.oneof(fc.constantFrom('"1"', 'W/"1"', '"1-gzip"', '*', '"1.reduced-br"', '"', '1'), headerText)
const date = fc.oneof(
  fc.date({ noInvalidDate: true }).map((at) => at.toUTCString()),
  fc.constantFrom('Sun Feb 30 10:20:30 2026', 'Sunday, 01-Feb-99 10:20:30 GMT', '0', '-1', '9'.repeat(5_000)),
  headerText,
)

const nameOf = fc.constantFrom(
  'name',
  'price',
  'title',
  'author',
  'email',
  'id',
  '__proto__',
  'constructor',
  'toString',
  '',
)
const anything = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.double(),
  fc.bigInt().map(Number),
  fc.constant(null),
)
const bodyText = fc.oneof(
  fc.json(),
  fc.jsonValue().map((value) => JSON.stringify(value)),
  fc.dictionary(nameOf, anything).map((value) => JSON.stringify(value)),
  fc
    .array(fc.tuple(nameOf, anything))
    .map((all) => `{${all.map(([k, v]) => `${JSON.stringify(k)}:${JSON.stringify(v)}`)}}`),
  fc.stringMatching(/^[[\]{}:,"\\0-9eE+.tfn u-]*$/, { maxLength: 200 } as never),
  fc.constantFrom(
    '['.repeat(100_000),
    '{"a":'.repeat(50_000),
    `[${'0'.repeat(500_000)}1]`,
    `{"price":1${'0'.repeat(900_000)}}`,
  ),
  fc.constantFrom(`"${'\\'.repeat(900_000)}`, `[${'1,'.repeat(400_000)}1]`, `{"name":"${'a'.repeat(1_000_000)}"}`),
)
const body = fc.oneof(
  bodyText.map((text) => Buffer.from(text)),
  fc.uint8Array({ maxLength: 200 }).map((all) => Buffer.from(all)),
)

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.constantFrom('1', '-1', '1e9', 'name', '-price', 'a,b', '.', '..'),
)
const parameter = fc.constantFrom(
  'limit',
  'cursor',
  'sort',
  'fields',
  'q',
  'name',
  'minPrice',
  'genre',
  'updatedAfter',
  '__proto__',
  'x',
)
const query = fc.oneof(
  fc.array(fc.tuple(parameter, text), { maxLength: 6 }).map((all) => new URLSearchParams(all).toString()),
  // Valid and invalid fragments of percent-encoding.
  fc
    .array(fc.constantFrom('%', '%0', '%00', '%ff', '%zz', '=', '&', '+', 'fields', 'limit', '[', ']', '1'), {
      maxLength: 30,
    })
    .map((all) => all.join('')),
)
const cursor = fc.oneof(
  fc.array(anything, { maxLength: 6 }).map((parts) => Buffer.from(JSON.stringify(parts)).toString('base64url')),
  fc.string({ unit: 'binary', maxLength: 100 }),
  fc.uint8Array({ maxLength: 60 }).map((all) => Buffer.from(all).toString('base64')),
)
const fields = fc.oneof(
  fc
    .array(fc.constantFrom('id', 'name', '_links', '.', '..', '_links.self', '__proto__', 'constructor', ''), {
      maxLength: 60,
    })
    .map((all) => all.join(',')),
  fc.constantFrom('a.'.repeat(3_000), ','.repeat(7_000), 'name,'.repeat(1_500)),
  fc.string({ unit: 'binary' }),
)

forEachEngine((engine) => {
  describe(`arbitrary input (SEED=${seed})`, () => {
    let db: Database
    let service: TestApp
    before(async () => {
      db = await engine.database()
      service = await testApp(db, { prefixes: [''] })
      const create = (url: string, payload: object) => service.send({ method: 'POST', url, payload })
      await create('/products', { name: 'Pen', price: 1 })
      await create('/users', { name: 'Ada', email: 'ada@plinth.test' })
      await create('/books', { title: 'T', author: 'A' })
      for (const url of ['/products', '/users', '/books']) await service.send({ url: `${url}/1` })
    })
    after(async () => {
      await service.app.close()
      await db.close()
    })

    type Sent = Parameters<TestApp['send']>[0]
    const once = async (sent: Sent) => {
      const started = process.cpuUsage()
      const { statusCode } = await service.send(sent)
      const { user, system } = process.cpuUsage(started)
      assert.ok(statusCode < 500, `${statusCode} ${service.faults}`)
      return (user + system) / 1_000
    }
    /**
     * Asserts that there is no fault, no modified prototype and no hang. Only a request that is slow three times counts
     * as a hang.
     */
    const survives = async (sent: Sent) => {
      const before = Reflect.ownKeys(Object.prototype)
      let ms = await once(sent)
      for (let tried = 1; tried < 3 && ms >= maxMs; tried++) ms = await once(sent)
      assert.deepEqual(Reflect.ownKeys(Object.prototype), before)
      assert.deepEqual(service.faults, [])
      assert.ok(ms < maxMs, `${ms} ms`)
    }

    const holds = <T>(what: string, input: fc.Arbitrary<T>, request: (input: T) => Sent) =>
      it(`in ${what} gets a status below 500, without a hang or prototype pollution`, (t) => {
        t.diagnostic(`SEED=${seed}`)
        return fc.assert(
          fc.asyncProperty(input, (value) => survives(request(value))),
          { seed, numRuns },
        )
      })

    const json = { 'content-type': 'application/json' }
    holds('creation bodies', fc.tuple(path, body), ([url, payload]) => ({
      method: 'POST',
      url,
      payload,
      headers: json,
    }))
    holds('replacement bodies', fc.tuple(one, body), ([url, payload]) => ({
      method: 'PUT',
      url,
      payload,
      headers: json,
    }))
    holds('patch bodies', fc.tuple(one, body), ([url, payload]) => ({
      ...{ method: 'PATCH', url, payload },
      headers: { 'content-type': 'application/merge-patch+json' },
    }))
    holds('Content-Type', fc.tuple(path, headerText), ([url, type]) => ({
      ...{ method: 'POST', url, payload: '{"name":7}' },
      headers: { 'content-type': `application/json${type}` },
    }))
    holds('query strings', fc.tuple(fc.oneof(list, one), query), ([url, search]) => ({ url: `${url}?${search}` }))
    holds('cursors', fc.tuple(list, cursor), ([url, value]) => ({ url: `${url}?cursor=${encodeURIComponent(value)}` }))
    holds('fields', fc.tuple(fc.oneof(list, one), fields), ([url, value]) => ({
      url: `${url}?fields=${encodeURIComponent(value).slice(0, 8_000)}`,
    }))
    const conditions = ['if-match', 'if-none-match'] as const
    holds(
      'entity tags',
      fc.tuple(one, fc.constantFrom('GET', 'PUT'), listOf(tag), listOf(tag)),
      ([url, method, a, b]) => ({
        ...{ method: method as 'GET', url, ...(method === 'PUT' && { payload: {} }) },
        headers: { [conditions[0]]: a.slice(0, 8_000), [conditions[1]]: b.slice(0, 8_000) },
      }),
    )
    holds('dates', fc.tuple(one, date, date), ([url, since, until]) => ({
      ...{ url, headers: { 'if-modified-since': since.slice(0, 8_000), 'if-unmodified-since': until.slice(0, 8_000) } },
    }))
    const types = ['application/json', 'application/problem+json', 'application/*', '*/*', 'text/html', 'a/b;c="d,e"']
    holds(
      'Accept',
      fc.tuple(fc.constantFrom('/products', '/nothing', '/problems/auth-required'), weighted(...types)),
      ([url, accept]) => ({
        ...{ url, headers: { accept } },
      }),
    )
    holds(
      'Accept-Encoding',
      fc.tuple(fc.oneof(list, one), weighted('gzip', 'br', 'identity', '*', 'x-gzip')),
      ([url, accepted]) => ({
        ...{ url, headers: { 'accept-encoding': accepted } },
      }),
    )
    holds('Authorization', headerText, (authorization) => ({ url: '/users', scopes: null, headers: { authorization } }))
    const names = [
      'origin',
      'prefer',
      'range',
      'x-request-id',
      'idempotency-key',
      'x-api-key',
      'content-encoding',
      'host',
    ]
    holds('other headers', fc.tuple(fc.constantFrom(...names), headerText, path), ([name, value, url]) => ({
      ...{ method: 'POST', url, payload: '{}', headers: { ...json, [name]: value } },
    }))
  })
})
