import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { InjectOptions, LightMyRequestResponse as Response } from 'fastify'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const lamp = { name: 'Lamp', price: 1 }
const hook = { event: '*', callbackUrl: 'http://127.0.0.1:9/hook' }
const report = { reportType: 'books', format: 'csv' }

forEachEngine((engine) => {
  describe('Prefer (RFC 7240)', () => {
    let db: Database
    let service: TestApp
    let product: string
    before(async () => {
      db = await engine.database()
      service = await testApp(db)
      product = (await send('POST', '/products', lamp)).headers.location as string
    })
    after(async () => {
      const faults = [...service.faults]
      await service.app.close()
      await db.close()
      assert.deepEqual(faults, [])
    })

    const send = (method: string, url: string, payload?: object, prefer?: string, headers: object = {}) =>
      service.send({
        method: method as 'GET',
        url,
        ...(payload && { payload }),
        headers: { ...(prefer !== undefined && { prefer }), ...headers },
      } as InjectOptions)
    const applied = ({ headers }: Response) => headers['preference-applied']
    /** Asserts that the response is a 400. Returns the error messages by field, each cut off at its first colon. */
    const named = (answer: Response) => {
      assert.equal(answer.statusCode, 400, answer.body)
      assert.equal(answer.json().errorCode, 'INVALID_INPUT')
      const errors = answer.json().errors as { field: string; message: string }[]
      return Object.fromEntries(errors.map(({ field, message }) => [field, message.split(':')[0]]))
    }

    describe('return', () => {
      const empty = (answer: Response) => {
        assert.equal(answer.body, '')
        assert.equal(answer.headers['content-type'], undefined)
        assert.equal(applied(answer), 'return=minimal')
      }

      it('return=minimal: 201 for a new product, without a body but with Location and ETag', async () => {
        const answer = await send('POST', '/products', lamp, 'return=minimal')
        assert.equal(answer.statusCode, 201)
        empty(answer)
        assert.equal(answer.headers['content-length'], '0')
        assert.equal(answer.headers.etag, '"1"')
        assert.ok(answer.headers['last-modified'])
        assert.equal((await send('GET', answer.headers.location as string)).json().name, 'Lamp')
      })

      it('return=minimal: 202 for a new report, without a body but with Location and Retry-After', async () => {
        const answer = await send('POST', '/api/reports', report, 'return=minimal')
        assert.equal(answer.statusCode, 202)
        empty(answer)
        assert.equal(answer.headers['retry-after'], '1')
        assert.match(answer.headers.location as string, /^\/api\/reports\/tsk_.*\/status$/)
      })

      for (const method of ['PUT', 'PATCH']) {
        it(`return=minimal: 204 with the new ETag for ${method}`, async () => {
          const { etag } = (await send('GET', product)).headers
          const answer = await send(method, product, { name: method, price: 2 }, 'return=minimal')
          assert.equal(answer.statusCode, 204)
          empty(answer)
          assert.equal(answer.headers['content-length'], undefined)
          assert.notEqual(answer.headers.etag, etag)
          const read = await send('GET', product)
          assert.deepEqual([read.headers.etag, read.json().name], [answer.headers.etag, method])
        })
      }

      it('return=representation, or no preference: 200 with the representation for PUT', async () => {
        const asked = await send('PUT', product, lamp, 'return=representation, return=minimal')
        assert.deepEqual([asked.statusCode, asked.json().name], [200, 'Lamp'])
        assert.equal(applied(asked), 'return=representation')
        const plain = await send('PUT', product, lamp)
        assert.deepEqual([plain.statusCode, applied(plain)], [200, undefined])
      })

      it('return=minimal: 201 with the body for a new webhook, as only this response has the secret', async () => {
        const answer = await send('POST', '/api/webhooks', hook, 'return=minimal')
        assert.equal(answer.statusCode, 201)
        assert.match(answer.json().secret, /^whsec_/)
        assert.equal(applied(answer), undefined)
      })

      it('return=minimal: error responses have their usual body', async () => {
        const invalid = await send('POST', '/products', { name: 'Lamp', price: -1 }, 'return=minimal')
        assert.deepEqual([invalid.statusCode, invalid.json().errorCode], [422, 'VALIDATION_ERROR'])
        const outdated = await send('PUT', product, lamp, 'return=minimal', { 'if-match': '"999"' })
        assert.deepEqual([outdated.statusCode, outdated.json().errorCode], [412, 'PRECONDITION_FAILED'])
        assert.equal(applied(outdated), undefined)
      })

      it('a replayed response follows the preference of the repeated request', async () => {
        const headers = { 'idempotency-key': 'prefer-1' }
        const first = await send('POST', '/products', lamp, 'return=minimal', headers)
        const again = await send('POST', '/products', lamp, 'return=minimal', headers)
        assert.deepEqual([again.statusCode, again.body, again.headers.etag], [201, '', first.headers.etag])
        assert.equal(again.headers['idempotent-replayed'], 'true')
        const whole = await send('POST', '/products', lamp, undefined, headers)
        assert.equal(whole.json().name, 'Lamp')
        assert.equal(whole.headers.location, first.headers.location)
      })
    })

    describe('handling', () => {
      const unknown = 'is not a field'
      const readOnly = 'is read-only'
      const parameter = 'is not a parameter'
      const refused: [method: string, url: string, payload: object | undefined, errors: Record<string, string>][] = [
        ['POST', '/products', { ...lamp, id: 1, color: 'red' }, { id: readOnly, color: unknown }],
        ['POST', '/users', { name: 'A', email: 'a@b.c', createdAt: 'x' }, { createdAt: readOnly }],
        ['POST', '/books', { title: 'A', author: 'B', _links: {} }, { _links: readOnly }],
        ['POST', '/products?dry=1', { ...lamp, x: 1 }, { dry: parameter, x: unknown }],
        ['POST', '/api/reports', { ...report, taskId: 'x', delimiter: ';' }, { taskId: readOnly, delimiter: unknown }],
        ['POST', '/api/webhooks', { ...hook, secret: 'x', events: [] }, { secret: readOnly, events: unknown }],
        ['GET', '/products?genre=a&minPrice=1', undefined, { genre: parameter }],
        ['GET', '/v1/books?size=5&page=2', undefined, { size: parameter, page: parameter }],
        ['GET', '/users?role=a', undefined, { role: parameter }],
        ['GET', '/api/reports?state=a', undefined, { state: parameter }],
        ['GET', '/api/report-types?x=1', undefined, { x: parameter }],
        ['GET', '/api/webhooks?x=1', undefined, { x: parameter }],
        ['GET', '/api/event-types?x=1', undefined, { x: parameter }],
        ['GET', '/api/reports/tsk_0000000000000000000000/status?x=1', undefined, { x: parameter }],
        ['GET', '/api/reports/tsk_0000000000000000000000/download?x=1', undefined, { x: parameter }],
        ['DELETE', '/api/webhooks/whk_0000000000000000000000?x=1', undefined, { x: parameter }],
      ]
      for (const [method, url, payload, errors] of refused) {
        it(`400 with handling=strict, naming each field and parameter that ${method} ${url} would ignore`, async () => {
          const answer = await send(method, url, payload, 'handling=strict')
          assert.deepEqual(named(answer), errors)
          assert.equal(applied(answer), 'handling=strict')
        })
      }

      for (const method of ['PUT', 'PATCH']) {
        it(`400 with handling=strict for ${method} with unknown and read-only fields; nothing changes`, async () => {
          const { etag } = (await send('GET', product)).headers
          const payload = { ...lamp, id: 7, updatedAt: 'x', color: 'red' }
          const answer = await send(method, `${product}?x=1`, payload, 'handling=strict')
          assert.deepEqual(named(answer), { x: parameter, id: readOnly, updatedAt: readOnly, color: unknown })
          assert.equal((await send('GET', product)).headers.etag, etag)
        })
      }

      it('200, 201 or 202 with handling=strict if every field and parameter is known', async () => {
        const accepted: [string, string, object?][] = [
          ['POST', '/products', lamp],
          ['PUT', product, lamp],
          ['PATCH', product, { price: 3 }],
          ['POST', '/api/reports', report],
          ['POST', '/api/webhooks', { ...hook, callbackUrl: 'http://127.0.0.1:9/b', headers: { 'X-Any': 'thing' } }],
          ['GET', '/products?limit=1&sort=-price&fields=id&q=a&minPrice=1&updatedAfter=2026-01-01'],
          ['GET', `${product}?fields=id`],
        ]
        for (const [method, url, payload] of accepted) {
          const answer = await send(method, url, payload, 'handling=strict')
          assert.ok(answer.statusCode < 300, `${method} ${url}: ${answer.body}`)
          assert.equal(applied(answer), 'handling=strict')
        }
      })

      it('200 with handling=lenient, an unknown value or no preference; unknown members are ignored', async () => {
        for (const prefer of ['handling=lenient', 'handling=severe', undefined]) {
          const answer = await send('PUT', `${product}?x=1`, { ...lamp, id: 7, color: 'red' }, prefer)
          assert.equal(answer.statusCode, 200)
          assert.equal(applied(answer), prefer === 'handling=lenient' ? prefer : undefined)
        }
      })

      it('400 with handling=strict for parameters named like Object.prototype members (toString)', async () => {
        const answer = await send('GET', '/products?toString=1&hasOwnProperty=2', undefined, 'handling=strict')
        assert.deepEqual(Object.keys(named(answer)), ['toString', 'hasOwnProperty'])
      })

      it('401 and 403 take precedence over handling=strict', async () => {
        const headers = { prefer: 'handling=strict' }
        for (const [scopes, status] of [
          [null, 401],
          ['', 403],
        ] as const) {
          const request = { method: 'POST' as const, url: '/products', payload: { ...lamp, x: 1 }, headers, scopes }
          assert.equal((await service.send(request)).statusCode, status)
        }
      })
    })

    describe('count', () => {
      it('200 with X-Total-Count and Preference-Applied, even with other preferences', async () => {
        const answer = await send(
          'GET',
          '/products?limit=1',
          undefined,
          'foo=bar, Count=Exact, handling=strict, wait=5',
        )
        const total = Number(answer.headers['x-total-count'])
        assert.ok(total > 1)
        assert.equal(applied(answer), 'handling=strict, count=exact')
      })

      it('200 without a count by default, with Vary: Prefer for caches', async () => {
        const answer = await send('GET', '/products?limit=1')
        assert.equal(answer.headers['x-total-count'], undefined)
        assert.match(String(answer.headers.vary), /^Prefer\b/)
        const inexact = await send('GET', '/products?limit=1', undefined, 'x="count=exact"')
        assert.deepEqual([inexact.headers['x-total-count'], applied(inexact)], [undefined, undefined])
      })
    })
  })
})
