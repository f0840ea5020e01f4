import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Type } from 'typebox'
import { service as define } from '../../src/definition/service.ts'
import { collection } from '../../src/resources/collection.ts'
import { Decimal, Money } from '../../src/resources/decimal-fields.ts'
import { Title } from '../../src/resources/field-types.ts'
import { appOn, type TestApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const seed = Number(process.env.SEED ?? 20_261_122)

const lines = collection({
  path: '/lines',
  noun: 'line',
  body: Type.Object({
    text: Title,
    amount: Decimal(12, 2),
    exact: Decimal(18, 4, { default: '0' }),
    share: Type.Optional(Decimal(3, 3, { minimum: '0', maximum: '0.5' })),
    code: Type.Optional(Decimal(18, 0)),
    fine: Type.Optional(Decimal(18, 18)),
    price: Type.Optional(Money('JPY')),
    weight: Type.Optional(Type.Number()),
    parts: Type.Optional(
      Type.Array(Type.Object({ cost: Decimal(5, 2, { default: '1' }), note: Type.Optional(Title) })),
    ),
    tax: Type.Optional(Type.Object({ rate: Decimal(4, 2), weight: Type.Optional(Type.Number()) })),
  }),
  filters: ['amount', 'exact', 'text', 'price'],
  ranges: ['amount', 'exact'],
  sorts: ['amount', 'exact'],
  unique: ['code'],
})
const definition = define({ resources: [lines] })
const scopes = 'lines:read lines:write webhooks:write'
const url = '/lines'

forEachEngine((engine) => {
  describe('a decimal field', () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const post = (payload: object | string, headers: Record<string, string> = {}) =>
      send({ method: 'POST', url, payload, headers: { 'content-type': 'application/json', ...headers } })
    const create = async (more: object = {}) => {
      const response = await post({ text: 'Line', amount: '1.00', ...more })
      assert.equal(response.statusCode, 201, response.body)
      return response.json()
    }
    /** Returns all rows of a list, read page by page. */
    const walk = async (query: string, rel = 'next') => {
      const found: { id: number; amount: string; exact: string }[] = []
      for (let next: string | undefined = `${url}?limit=7&${query}`; next; ) {
        const page = await send({ url: next })
        assert.equal(page.statusCode, 200, page.body)
        found.push(...page.json())
        next = new RegExp(`<([^>]+)>; rel="${rel}"`).exec(String(page.headers.link))?.[1]
      }
      return found
    }

    const accepted: [sent: string, amount: string][] = [
      ['"12.50"', '12.50'],
      ['"12.5"', '12.50'],
      ['" 12 "', '12.00'],
      ['12.5', '12.50'],
      ['1250e-2', '12.50'],
      ['-0.01', '-0.01'],
      ['-0', '0.00'],
      ['"-0.00"', '0.00'],
      ['0.1', '0.10'],
      ['9999999999.99', '9999999999.99'],
      ['"-9999999999.99"', '-9999999999.99'],
    ]
    for (const [sent, amount] of accepted) {
      it(`201 for ${sent}, then 200 with "${amount}"`, async () => {
        const response = await post(`{"text":"A","amount":${sent}}`)
        assert.deepEqual([response.statusCode, response.json().amount], [201, amount], response.body)
        const { id } = response.json()
        assert.equal((await send({ url: `${url}/${id}` })).json().amount, amount)
        assert.deepEqual((await send({ url: `${url}/${id}?fields=amount` })).json(), { amount })
        assert.ok((await walk(`amount=${amount}`)).some((row) => row.id === id))
      })
    }

    it('201 with 18 digits, the maximum that a column holds', async () => {
      const digits = { code: '999999999999999999', exact: '-99999999999999.9999', fine: '-0.999999999999999999' }
      const { id } = await create({ ...digits, price: '1234567890' })
      const { code, exact, fine, price } = (await send({ url: `${url}/${id}` })).json()
      assert.deepEqual({ code, exact, fine, price }, { ...digits, price: '1234567890' })
      assert.equal((await walk('exact=-99999999999999.9999'))[0]?.id, id)
      assert.equal((await walk('sort=exact'))[0]?.id, id)
      const patched = await send({ method: 'PATCH', url: `${url}/${id}`, payload: { text: 'B' } })
      assert.deepEqual([patched.json().code, patched.json().exact], [digits.code, digits.exact])
    })

    const refused: [body: string, status: number, field: string, message: RegExp][] = [
      ['"amount":"1.005"', 422, 'amount', /^must have at most 2 digits after the decimal point$/],
      ['"amount":"1.500"', 422, 'amount', /at most 2 digits after/],
      ['"amount":1.005', 422, 'amount', /at most 2 digits after/],
      ['"amount":1e-7', 422, 'amount', /at most 2 digits after/],
      ['"amount":"12345678901"', 422, 'amount', /^must have at most 10 digits before the decimal point$/],
      ['"amount":12345678901', 422, 'amount', /at most 10 digits before/],
      ['"amount":1e21', 422, 'amount', /at most 10 digits before/],
      ['"amount":"1e3"', 422, 'amount', /^must be a decimal number such as "12\.50"$/],
      ['"amount":"1,50"', 422, 'amount', /such as "12\.50"/],
      ['"amount":"007"', 422, 'amount', /such as/],
      ['"amount":".5"', 422, 'amount', /such as/],
      ['"amount":"5."', 422, 'amount', /such as/],
      ['"amount":"+5"', 422, 'amount', /such as/],
      ['"amount":"Infinity"', 422, 'amount', /such as/],
      ['"amount":""', 422, 'amount', /such as/],
      ['"amount":"１"', 422, 'amount', /such as/],
      ['"amount":true', 400, 'amount', /string/],
      ['"amount":["1"]', 400, 'amount', /string/],
      ['"amount":null', 400, 'amount', /string/],
      ['"amount":1,"code":1234567890123456', 422, 'code', /more than 15 significant digits.* send it as a string/],
      // As doubles, the next two values would lose their last digits and appear to be valid.
      ['"amount":0.10000000000000001', 422, 'amount', /more than 15 significant digits/],
      ['"amount":1,"tax":{"rate":0.10000000000000001}', 422, 'tax.rate', /more than 15 significant digits/],
      ['"amount":1,"share":"0.501"', 422, 'share', /^must be at most 0\.500$/],
      ['"amount":1,"share":-0.001', 422, 'share', /^must be at least 0\.000$/],
      ['"amount":1,"share":"1"', 422, 'share', /^must have only a 0 before the decimal point$/],
      ['"amount":1,"price":"1.5"', 422, 'price', /^must have no digits after the decimal point$/],
      ['"amount":1,"parts":[{"cost":"1"},{"cost":"1.001"}]', 422, 'parts.1.cost', /at most 2 digits after/],
    ]
    for (const [body, status, field, message] of refused) {
      it(`${status} for {${body}}, and nothing is stored`, async () => {
        const before = (await walk('')).length
        const response = await post(`{"text":"A",${body}}`)
        const [error] = response.json().errors ?? []
        assert.deepEqual([response.statusCode, error?.field], [status, field], response.body)
        assert.match(error.message, message)
        assert.equal((await walk('')).length, before)
      })
      it(`${status} for {${body}} in a PATCH, and nothing changes`, async () => {
        const { id } = await create()
        const payload = `{"text":"A",${body}}`
        const headers = { 'content-type': 'application/merge-patch+json' }
        const response = await send({ method: 'PATCH', url: `${url}/${id}`, payload, headers })
        assert.deepEqual([response.statusCode, response.json().errors?.[0].field], [status, field], response.body)
        assert.equal((await send({ url: `${url}/${id}` })).headers.etag, '"1"')
      })
    }

    it('201 for a Type.Number() field with many digits, which is stored as a double', async () => {
      const response = await post(
        '{"text":"A","amount":0.1,"weight":0.10000000000000001,"tax":{"rate":1,"weight":1.0000000000000002}}',
      )
      const { weight, tax } = response.json()
      assert.deepEqual([response.statusCode, weight, tax], [201, 0.1, { rate: '1.00', weight: 1.0000000000000002 }])
    })

    it('201 and 200 with nested decimals padded to their scale, including defaults', async () => {
      const { id, parts, tax, exact } = await create({ parts: [{ cost: 2.5 }, {}], tax: { rate: '7' } })
      assert.deepEqual([parts, tax, exact], [[{ cost: '2.50' }, { cost: '1.00' }], { rate: '7.00' }, '0.0000'])
      const patched = await send({ method: 'PATCH', url: `${url}/${id}`, payload: { tax: { rate: 19 }, exact: null } })
      assert.deepEqual([patched.json().tax, patched.json().exact], [{ rate: '19.00' }, '0.0000'])
    })

    it('200 for PUT and PATCH with strings or numbers; null in a PATCH removes an optional decimal', async () => {
      const { id } = await create({ share: '0.5' })
      const patch = (payload: object) => send({ method: 'PATCH', url: `${url}/${id}`, payload })
      assert.equal((await patch({ amount: 0.07 })).json().amount, '0.07')
      assert.equal((await patch({ amount: '-7' })).json().amount, '-7.00')
      const { share, ...rest } = (await patch({ share: null })).json()
      assert.deepEqual([share, rest.amount], [undefined, '-7.00'])
      const put = await send({ method: 'PUT', url: `${url}/${id}`, payload: { text: 'P', amount: 3, exact: '1.5' } })
      assert.deepEqual([put.statusCode, put.json().amount, put.json().exact], [200, '3.00', '1.5000'])
      assert.deepEqual((await send({ url: `${url}/${id}` })).json(), put.json())
    })

    it('201 with the same response when an Idempotency-Key is sent again', async () => {
      const headers = { 'idempotency-key': 'decimal-1' }
      const first = await post({ text: 'I', amount: '5.1' }, headers)
      const again = await post({ text: 'I', amount: '5.1' }, headers)
      assert.deepEqual(
        [again.statusCode, again.json(), again.headers['idempotent-replayed']],
        [201, first.json(), 'true'],
      )
      assert.equal(again.json().amount, '5.10')
    })

    it('409 for a duplicate in a unique field, even in another notation', async () => {
      await create({ code: '7' })
      const response = await post({ text: 'U', amount: 1, code: 7 })
      assert.deepEqual([response.statusCode, response.json().errors?.[0].field], [409, 'code'])
    })

    it('has the same JSON representation in events as in responses', async () => {
      const hook = { event: 'line.*', callbackUrl: 'http://127.0.0.1:9/hook' }
      assert.equal((await send({ method: 'POST', url: '/api/webhooks', payload: hook })).statusCode, 201)
      const made = await create({ amount: 4.2, exact: '12345678901234.5678' })
      const changed = await send({ method: 'PATCH', url: `${url}/${made.id}`, payload: { text: 'E' } })
      const stored = await service.db.read.selectFrom('events').select('body').orderBy('id').execute()
      const bodies = stored.map(({ body }) => (typeof body === 'string' ? JSON.parse(body) : body))
      const ofLine = bodies.filter(({ id }) => id === made.id).toSorted((a, b) => (a.text > b.text ? -1 : 1))
      assert.deepEqual(ofLine, [made, changed.json()])
      assert.deepEqual([made.amount, made.exact], ['4.20', '12345678901234.5678'])
    })

    const malformed: [query: string, field: string, message: RegExp][] = [
      ['amount=1.005', 'amount', /at most 2 digits after/],
      ['amount=abc', 'amount', /such as "12\.50"/],
      ['amount=', 'amount', /such as/],
      ['minAmount=1e3', 'minAmount', /such as/],
      ['maxExact=123456789012345678', 'maxExact', /at most 14 digits before/],
      ['sort=share', 'sort', /use one of/],
    ]
    for (const [query, field, message] of malformed) {
      it(`400 for ${query}`, async () => {
        const response = await send({ url: `${url}?${query}` })
        const [error] = response.json().errors
        assert.deepEqual([response.statusCode, error.field], [400, field], response.body)
        assert.match(error.message, message)
      })
    }

    it('400 for a cursor with a value that is not a decimal of the field', async () => {
      const page = await send({ url: `${url}?limit=1&sort=amount` })
      const next = /<([^>]+)>; rel="next"/.exec(String(page.headers.link))?.[1] as string
      const cursor = new URL(next, 'https://x').searchParams.get('cursor') as string
      const [mark, direction, , id] = JSON.parse(Buffer.from(cursor, 'base64url').toString())
      for (const value of ['abc', '1', '1.005', '99999999999999999999.00', 1, '', '1.00n']) {
        const forged = Buffer.from(JSON.stringify([mark, direction, value, id])).toString('base64url')
        const response = await send({ url: `${url}?limit=1&sort=amount&cursor=${forged}` })
        assert.deepEqual([response.statusCode, response.json().errors[0].field], [400, 'cursor'], String(value))
      }
    })

    it(`200 with the rows and order that exact arithmetic gives, for every filter and sort (SEED=${seed})`, async () => {
      const cents = fc.oneof(
        fc.bigInt({ min: -20n, max: 20n }),
        fc.bigInt({ min: 999_999_999_980n, max: 999_999_999_999n }),
        fc.bigInt({ min: -999_999_999_999n, max: 999_999_999_999n }),
      )
      const tenThousandths = fc.oneof(
        fc.bigInt({ min: -3n, max: 3n }),
        // Adjacent values that a double cannot distinguish.
        fc.bigInt({ min: 10n ** 18n - 30n, max: 10n ** 18n - 1n }),
        fc.bigInt({ min: -(10n ** 18n) + 1n, max: -(10n ** 18n) + 30n }),
      )
      for (const [amount, exact] of fc.sample(fc.tuple(cents, tenThousandths), { seed, numRuns: 60 })) {
        await create({ amount: decimal(amount, 2), exact: decimal(exact, 4) })
      }
      const all = (await walk('')).map((row) => ({
        ...{ id: BigInt(row.id), amount: integer(row.amount), exact: integer(row.exact) },
      }))
      type Term = 'id' | 'amount' | 'exact'
      const sorted = (rows: typeof all, terms: string[]) =>
        rows.toSorted((a, b) => {
          for (const term of terms) {
            const name = term.replace('-', '') as Term
            if (a[name] !== b[name]) return (a[name] < b[name] ? -1 : 1) * (term.startsWith('-') ? -1 : 1)
          }
          return 0
        })
      const orders: [sort: string, terms: string[]][] = [
        ['', ['id']],
        ['amount', ['amount', 'id']],
        ['-exact', ['-exact', '-id']],
        ['exact,-amount', ['exact', '-amount', '-id']],
        ['amount,exact', ['amount', 'exact', 'id']],
      ]
      const [, , low, high] = sorted(all, ['exact', 'id'])
      const middle = sorted(all, ['amount', 'id'])[all.length >> 1]
      assert.ok(low && high && middle)
      const filters: [query: string, passes: (row: (typeof all)[number]) => boolean][] = [
        ['', () => true],
        [`exact=${decimal(low.exact, 4)}`, (row) => row.exact === low.exact],
        [`minExact=${decimal(low.exact, 4)}`, (row) => row.exact >= low.exact],
        [`maxExact=${decimal(high.exact, 4)}&text=line`, (row) => row.exact <= high.exact],
        [`minAmount=${decimal(middle.amount, 2)}&maxExact=0`, (row) => row.amount >= middle.amount && row.exact <= 0n],
        [
          `maxAmount=${decimal(middle.amount, 2)}&minAmount=-0.05`,
          (row) => row.amount <= middle.amount && row.amount >= -5n,
        ],
      ]
      const text = new Set((await walk('text=line')).map(({ id }) => BigInt(id)))
      for (const [sort, terms] of orders) {
        for (const [query, passes] of filters) {
          const expected = sorted(
            all.filter((row) => passes(row) && (!query.includes('text') || text.has(row.id))),
            terms,
          )
          const found = await walk(`sort=${sort}&${query}`)
          assert.deepEqual(
            found.map(({ id }) => BigInt(id)),
            expected.map(({ id }) => id),
            `${sort} ${query}`,
          )
        }
      }
      const last = await send({ url: `${url}?limit=5&sort=-exact`, headers: { prefer: 'count=exact' } })
      assert.equal(last.headers['x-total-count'], String(all.length))
      const next = /<([^>]+)>; rel="next"/.exec(String(last.headers.link))?.[1] as string
      const prev = /<([^>]+)>; rel="prev"/.exec(String((await send({ url: next })).headers.link))?.[1] as string
      assert.deepEqual((await send({ url: prev })).json(), last.json())
    })

    it('is a string with a pattern and without a format in the OpenAPI document', async () => {
      const document = (await send({ url: '/openapi.json' })).json()
      const { properties } = document.components.schemas.Line
      const { amount, share, price } = properties
      assert.deepEqual(amount, {
        type: 'string',
        description: 'A decimal number of at most 12 digits, 2 of them after the decimal point',
        examples: ['12.50'],
        pattern: '^-?(0|[1-9][0-9]{0,9})(\\.[0-9]{1,2})?$',
      })
      assert.deepEqual([share.pattern, share.examples], ['^0(\\.[0-9]{1,3})?$', ['0.500']])
      assert.deepEqual(
        [price.pattern, price.description],
        ['^-?(0|[1-9][0-9]{0,17})$', 'An amount in JPY: a decimal number of at most 18 digits'],
      )
      const body = document.components.schemas.LineCreate.properties.exact
      assert.deepEqual([body.type, body.default], ['string', '0.0000'])
      const { parameters } = document.paths[url].get
      const parameter = parameters.find(({ name }: { name: string }) => name === 'minAmount')
      const { type, pattern } = parameter.schema
      assert.deepEqual({ type, pattern }, { type: 'string', pattern: amount.pattern })
      assert.ok(!JSON.stringify(document).includes('$defs'))
    })
  })
})

const integer = (text: string) => BigInt(text.replace('.', ''))

function decimal(value: bigint, scale: number): string {
  const digits = String(value < 0n ? -value : value).padStart(scale + 1, '0')
  return `${value < 0n ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`
}
