import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import type { InjectOptions } from 'fastify'
import { sql } from 'kysely'
import { sendRaw } from '../http/support.ts'
import { appOn } from '../support/app.ts'
import { onSqlite } from '../support/engines.ts'
import { ending, lifecyclesOf } from '../support/version-lifecycles.ts'

type Answer = { headers: Record<string, unknown> }
type Sent = InjectOptions & { scopes?: string | null; token?: string }

const sunset = 'Wed, 01 Dec 2027 00:00:00 GMT'
const origin = 'https://app.example.com'
const at = '2026-03-01T12:00:00.000Z'
const tasks = { done: `tsk_${'d'.repeat(22)}`, failed: `tsk_${'f'.repeat(22)}`, expired: `tsk_${'e'.repeat(22)}` }

/** A request for each kind of response: the expected status, and the path without a version prefix. */
const answers: [status: number, path: string, sent?: Sent][] = [
  [200, '/products'],
  [200, '/products/1', { scopes: null }],
  [200, '/products?limit=1'],
  [200, '/products/1', { method: 'HEAD' }],
  [200, '/products/1', { headers: { 'accept-encoding': 'gzip' } }],
  [200, '/products/1?fields=name'],
  [200, '/products/1', { method: 'PUT', payload: { name: 'Pen', price: 2 } }],
  [200, '/api/reports'],
  [200, `/api/reports/${tasks.done}/status`],
  [200, `/api/reports/${tasks.done}/events`],
  [200, `/api/reports/${tasks.done}/download`],
  [200, '/openapi.json'],
  [201, '/products', { method: 'POST', payload: { name: 'Ink', price: 1 } }],
  [201, '/products', { method: 'POST', payload: { name: 'Ink', price: 1 }, headers: { prefer: 'return=minimal' } }],
  [202, '/api/reports', { method: 'POST', payload: { reportType: 'books', format: 'csv' } }],
  [204, '/products/2', { method: 'DELETE' }],
  [204, '/products', { method: 'OPTIONS' }],
  [204, '/nothing/at/all', { method: 'OPTIONS', headers: { origin, 'access-control-request-method': 'GET' } }],
  [206, `/api/reports/${tasks.done}/download`, { headers: { range: 'bytes=0-3' } }],
  [304, '/products/1', { headers: { 'if-none-match': '*' } }],
  [304, '/products', { headers: { 'if-none-match': '*' } }],
  [304, '/products/1', { method: 'HEAD', headers: { 'if-none-match': '*' } }],
  [400, '/products/none'],
  [400, '/products', { method: 'POST', payload: '{', headers: { 'content-type': 'application/json' } }],
  [400, '/products', { headers: { host: 'a b' } }],
  [400, '/products/%zz'],
  [401, '/users', { scopes: null }],
  [401, '/products', { token: 'expired' }],
  [403, '/users', { scopes: 'products:write' }],
  [404, '/products/99'],
  [404, '/products/1/nothing'],
  [405, '/products/1', { method: 'POST' }],
  [406, '/products', { headers: { accept: 'text/html' } }],
  [409, '/users', { method: 'POST', payload: { name: 'Ada', email: 'ada@plinth.test' } }],
  [409, `/api/reports/${tasks.failed}/download`],
  [410, `/api/reports/${tasks.expired}/download`],
  [412, '/products/1', { method: 'PUT', payload: { name: 'Pen', price: 2 }, headers: { 'if-match': '"99"' } }],
  [412, '/products', { headers: { 'if-match': '"99"' } }],
  [
    413,
    '/products',
    { method: 'POST', payload: 'x'.repeat(1_048_577), headers: { 'content-type': 'application/json' } },
  ],
  [414, `/products?${'x'.repeat(8_192)}`],
  [415, '/products', { method: 'POST', payload: 'x', headers: { 'content-type': 'text/plain' } }],
  [416, `/api/reports/${tasks.done}/download`, { headers: { range: 'bytes=99-' } }],
  [417, '/products', { headers: { expect: 'foo' } }],
  [422, '/products', { method: 'POST', payload: { name: '', price: 1 } }],
]

onSqlite((engine) => {
  const service = appOn(engine, { lifecycles: lifecyclesOf(ending), corsOrigins: [origin] })
  const send = (path: string, sent: Sent = {}) => service.send({ ...sent, url: path })

  before(async () => {
    await send('/v2/users', { method: 'POST', payload: { name: 'Ada', email: 'ada@plinth.test' } })
    const writer = await service.results.create('result')
    await writer.write('0123456789')
    const { sha256, sizeBytes } = await writer.finish()
    const owner = { ownerClient: 'cli_test', ownerSubject: 'cli_test' }
    const common = { ...owner, reportType: 'products', format: 'csv', versionPrefix: '/v1', progress: 100, attempts: 1 }
    const times = { revision: 3, createdAt: at, updatedAt: at, completedAt: at }
    const file = { sizeBytes, sha256, resultKey: 'result', rowCount: 1 }
    const completed = { ...common, ...times, ...file, status: 'completed' as const }
    const rows = [
      { ...completed, id: tasks.done, expiresAt: '2036-01-01T00:00:00.000Z' },
      { ...completed, id: tasks.expired, expiresAt: at },
    ]
    const failed = {
      ...common,
      ...times,
      id: tasks.failed,
      status: 'failed' as const,
      errorCode: 'X',
      errorMessage: 'x',
    }
    await service.db.write(async (tx) => {
      await tx.insertInto('tasks').values(rows).execute()
      await tx.insertInto('tasks').values(failed).execute()
    })
  })

  const links = ({ headers }: Answer) => String(headers.link ?? '').split(', ')
  const successorsOf = (answer: Answer) => links(answer).filter((link) => link.includes('successor-version'))

  for (const prefix of ['/v1', '']) {
    describe(`a deprecated version at ${prefix || 'the bare paths'} (T-API-07)`, () => {
      before(async () => {
        // Recreates the products, because some requests delete or change them.
        await service.db.write(async (tx) => {
          await tx.deleteFrom('products').execute()
          for (const id of [1, 2, 3]) {
            const row = sql`(${id}, 'Pen', 'pen', 1, 1, ${at}, ${at})`
            await sql`insert into products (id, name, name_key, price, revision, created_at, updated_at) values ${row}`.execute(
              tx,
            )
          }
        })
      })

      for (const [status, path, sent = {}] of answers) {
        // Without a prefix, these paths do not belong to a version.
        if (prefix === '' && /^\/(openapi|nothing)/.test(path)) continue
        it(`${status} with Deprecation, Sunset and a single Link to the successor: ${sent.method ?? 'GET'} ${path.slice(0, 60)}`, async () => {
          const answer = await send(prefix + path, sent)
          assert.equal(answer.statusCode, status, answer.body)
          assert.equal(answer.headers.deprecation, 'true')
          assert.equal(answer.headers.sunset, sunset)
          const [bare] = path.split('?')
          assert.deepEqual(successorsOf(answer), [`</v2${bare}>; rel="successor-version"`])
        })
      }

      it('200 with pagination links in addition to the successor link', async () => {
        const answer = await send(`${prefix}/products?limit=1`)
        const rels = links(answer).map((link) => /rel="([\w-]+)"$/.exec(link)?.[1])
        assert.deepEqual(rels, ['successor-version', 'first', 'next'])
        const [, next] = /<([^>]+)>; rel="next"/.exec(String(answer.headers.link)) ?? []
        assert.match(String(next), new RegExp(`^${prefix}/products\\?limit=1&cursor=`))
        assert.equal((await send(String(next))).statusCode, 200)
      })
    })
  }

  describe('a service with a deprecated version', () => {
    const others = [
      '/v2/products',
      '/v2/products/99',
      '/v2/nothing',
      '/v3/products',
      '/livez',
      '/openapi.json',
      '/docs',
    ]
    for (const path of [
      ...others,
      '/v2/openapi.json',
      '/nothing',
      '/v1x/products',
      '/productsx',
      '/',
      '/.well-known/webhook-keys.json',
    ]) {
      it(`sends no deprecation headers for a path outside that version (${path})`, async () => {
        const { headers } = await send(path)
        for (const name of ['deprecation', 'sunset']) assert.equal(headers[name], undefined)
        assert.doesNotMatch(String(headers.link), /successor/)
      })
    }

    it('sends a 301 without deprecation headers over plain HTTP, even for the deprecated version', async () => {
      const answer = await send('/v1/products', { headers: { 'x-forwarded-proto': 'http' } })
      assert.deepEqual([answer.statusCode, answer.headers.deprecation], [301, undefined])
    })

    it('sends a 404 for an unknown version', async () => {
      assert.equal((await send('/v3/products')).json().errorCode, 'RESOURCE_NOT_FOUND')
    })

    it('exposes Deprecation, Sunset and Link to pages from an allowed origin', async () => {
      const { headers } = await send('/v1/products', { headers: { origin } })
      const exposed = String(headers['access-control-expose-headers']).split(', ')
      for (const name of ['Deprecation', 'Sunset', 'Link']) assert.ok(exposed.includes(name), name)
    })
  })

  describe('a deprecated version after v1', () => {
    const dates = '"deprecatedAt":"2026-12-01","sunsetAt":"2027-12-01T08:00:00.500Z"'
    const later = appOn(engine, {
      lifecycles: lifecyclesOf(`{"v2":{"status":"deprecated",${dates},"successor":"v1"}}`),
    })

    it('200 with a Structured Fields date in Deprecation (RFC 9745)', async () => {
      const answer = await later.send({ url: '/v2/products?limit=1' })
      assert.equal(answer.headers.deprecation, `@${Date.parse('2026-12-01') / 1_000}`)
      assert.equal(answer.headers.sunset, 'Wed, 01 Dec 2027 08:00:00 GMT')
      assert.deepEqual(successorsOf(answer), ['</v1/products>; rel="successor-version"'])
      assert.deepEqual(answer.json(), { items: [], next: null, prev: null })
      for (const url of ['/products', '/v1/products']) {
        assert.equal((await later.send({ url })).headers.deprecation, undefined)
      }
    })
  })

  it('417 with deprecation headers for an unsupported Expect over HTTP/1.1; 200 over HTTP/1.0', async () => {
    const head = ['Host: plinth.test', 'X-Forwarded-Proto: https', 'Connection: close', 'Expect: foo']
    for (const path of ['/v1/products', '/products']) {
      const answer = await sendRaw(service, [`GET ${path} HTTP/1.1`, ...head])
      assert.deepEqual([answer.status, JSON.parse(answer.body).errorCode], [417, 'EXPECTATION_FAILED'])
      assert.deepEqual([answer.headers.deprecation, answer.headers.sunset], ['true', sunset])
      assert.deepEqual(successorsOf(answer), ['</v2/products>; rel="successor-version"'])
    }
    assert.equal((await sendRaw(service, ['GET /v1/products HTTP/1.0', ...head])).status, 200)
  })

  describe('any spelling of a deprecated path', () => {
    const spellings: [path: string, successor: string][] = [
      ['/%76%31/products', '/v2/products'],
      ['/v1/%70roducts', '/v2/%70roducts'],
      ['/%70roducts', '/v2/%70roducts'],
      ['/v1/products?limit=1&q=%3E', '/v2/products'],
      ['/v1/products/"><x>', '/v2/products/%22%3e%3cx%3e'],
      ['/v1/products/#x', '/v2/products/'],
      ['/v1', '/v2'],
      ['https://plinth.test/v1/products/1?x', '/v2/products/1'],
      ['HTTPS://PLINTH.TEST/products/1', '/v2/products/1'],
    ]
    for (const [target, successor] of spellings) {
      it(`gets a Link to the successor’s equivalent path, percent-encoded (${target})`, async () => {
        const head = [`GET ${target} HTTP/1.1`, 'Host: plinth.test', 'X-Forwarded-Proto: https', 'Connection: close']
        const { headers } = await sendRaw(service, head)
        assert.equal(headers.deprecation, 'true')
        assert.deepEqual(successorsOf({ headers }), [`<${successor}>; rel="successor-version"`])
      })
    }
  })
})
