import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { service } from '../../src/definition/service.ts'
import { collection } from '../../src/resources/collection.ts'
import { Title } from '../../src/resources/field-types.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { appOn, everyScope, type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ title: Title }), sorts: ['title'] })
const scopes = `${everyScope} admin notes:read notes:write`

type Answer = Awaited<ReturnType<TestApp['send']>>

function refusalOf(answer: Answer): Record<string, string> {
  assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'], answer.body)
  const errors: { field: string; message: string }[] = answer.json().errors
  return Object.fromEntries(errors.map(({ field, message }) => [field, message]))
}

forEachEngine((engine) => {
  describe('an unknown query parameter', () => {
    const app = appOn(engine)
    const send: TestApp['send'] = (request) => app.send({ scopes, ...request })
    const none = 'is not a parameter: this operation takes none'

    const ofBooks = 'limit, cursor, sort, fields, q, updatedAfter, genre, author, or'
    const refused: [method: 'GET' | 'POST' | 'DELETE' | 'HEAD', url: string, errors: Record<string, string>][] = [
      ['GET', '/v2/books?limt=5', { limt: 'is not a parameter: did you mean limit?' }],
      ['GET', '/v2/books?Genre=Novel', { Genre: 'is not a parameter: did you mean genre?' }],
      ['GET', '/v2/books?page=2&limit=1', { page: `is not a parameter: expected ${ofBooks}` }],
      ['GET', '/v2/products?minprice=1', { minprice: 'is not a parameter: did you mean minPrice?' }],
      ['GET', '/v2/products/1?field=id', { field: 'is not a parameter: did you mean fields?' }],
      ['GET', '/v2/api/reports?stauts=failed', { stauts: 'is not a parameter: did you mean status?' }],
      ['GET', '/v2/api/usage?x=1', { x: none }],
      ['POST', '/v2/products?dry=1', { dry: none }],
      ['DELETE', '/v2/products/1?force=1', { force: none }],
      ['GET', '/v2/books?__proto__=1', { ['__proto__']: `is not a parameter: expected ${ofBooks}` }],
    ]
    for (const [method, url, errors] of refused) {
      it(`400 suggesting the nearest parameter, or listing all: ${method} ${url}`, async () => {
        const answer = await send({ method, url, ...(method === 'POST' && { payload: { name: 'N', price: 1 } }) })
        assert.deepEqual(Object.entries(refusalOf(answer)), Object.entries(errors))
      })
    }

    it('400 for HEAD as for GET', async () => {
      assert.equal((await send({ method: 'HEAD', url: '/v2/books?limt=5' })).statusCode, 400)
    })

    for (const prefix of ['', '/v1']) {
      it(`200 on paths ${prefix ? `under ${prefix}` : 'without a prefix'}, ignoring the parameter`, async () => {
        for (const url of ['/books?limt=5&_=1', '/products?x', '/api/reports?stauts=failed', '/api/usage?x=1']) {
          assert.equal((await send({ url: prefix + url })).statusCode, 200, url)
        }
      })
    }

    it('200 for a list in v2 with known parameters only, including the cursor of its next page', async () => {
      for (const title of ['A', 'B'])
        await send({ method: 'POST', url: '/v2/books', payload: { title, author: 'Ada', genre: 'Novel' } })
      const query = 'limit=1&sort=genre,-title&fields=id,title&author=ada&genre=novel&updatedAfter=2026-01-01'
      const first = await send({ url: `/v2/books?${query}` })
      assert.equal(first.json().items[0].title, 'B')
      assert.equal((await send({ url: first.json().next })).json().items[0].title, 'A')
    })

    it('200 on paths outside the versions, ignoring the parameter', async () => {
      for (const url of ['/openapi.json?x=1', '/docs?x=1', '/problems/auth-required?x=1', '/livez?x=1']) {
        assert.equal((await send({ url })).statusCode, 200, url)
      }
    })

    it('401, 403, 404 and 405 take precedence over 400', async () => {
      assert.equal((await send({ url: '/v2/users?x=1', scopes: null })).statusCode, 401)
      assert.equal((await send({ url: '/v2/users?x=1', scopes: 'books:write' })).statusCode, 403)
      assert.equal((await send({ url: '/v2/nothing?x=1' })).statusCode, 404)
      assert.equal((await send({ method: 'DELETE', url: '/v2/users?x=1' })).statusCode, 405)
    })
  })

  describe('an unknown query parameter under the `unknownParameters` option', () => {
    const cases: [what: string, unknownParameters: 'refuse' | 'ignore' | undefined, statuses: number[]][] = [
      ['400 in every version by default', undefined, [400, 400, 400]],
      ['200 in v1, including without a prefix, if v1 ignores unknown parameters; 400 in v2', 'ignore', [200, 200, 400]],
    ]
    for (const [what, unknownParameters, statuses] of cases) {
      it(what, async () => {
        const v1 = { resources: [notes], ...(unknownParameters && { unknownParameters }) }
        const definition = service({ resources: [notes], versions: { v1, v2: [notes] } })
        const db = await engine.database()
        await migrate(db, { tables: definition.tables })
        const { app, send } = await testApp(db, { definition })
        const answers = await Promise.all(['', '/v1', '/v2'].map((at) => send({ url: `${at}/notes?titel=A`, scopes })))
        await app.close()
        await db.close()
        assert.deepEqual(
          answers.map(({ statusCode }) => statusCode),
          statuses,
        )
        assert.match(refusalOf(answers[2] as Answer).titel as string, /expected limit, cursor, sort, fields/)
      })
    }
  })
})
