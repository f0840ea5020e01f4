import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import fc from 'fast-check'
import { Day, Decimal, Line, plinth, Ref, Type, view } from '../../../src/plinth.ts'
import { caseFold } from '../../../src/storage/rows/page-query.ts'
import { appOn, type TestApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

/** SEED reproduces a failed run; RUNS is the number of cases. */
const seed = Number(process.env.SEED ?? 20_261_123)
const runs = Number(process.env.RUNS ?? 50)

const { collection, service } = plinth({
  claims: ({ client }) => ({ tenant: client.id.split('_')[1], isAuditor: client.id === 'auditor' }),
})
const customers = collection({
  path: '/customers',
  noun: 'customer',
  body: Type.Object({
    tenant: Line(1, 40),
    name: Line(1, 40),
    nick: Type.Optional(Line(1, 40)),
    level: Type.Integer(),
    weight: Type.Number(),
    credit: Decimal(18, 2),
    since: Day,
    secret: Type.Optional(Line(1, 40)),
  }),
  filters: ['name', 'nick', 'level', 'since'],
  sorts: ['nick', 'weight', 'credit'],
  access: ({ claims }) => claims.isAuditor || { tenant: claims.tenant },
})
/** Everyone can read these rows, but not all of the customers to which they refer. */
const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    number: Line(1, 40),
    due: Day,
    customerId: Type.Optional(Ref(customers, { onDelete: 'setNull' })),
    payerId: Type.Optional(Ref(customers, { onDelete: 'setNull' })),
  }),
  filters: ['due', 'number'],
  search: ['number'],
})
const definition = service({
  resources: [customers, invoices],
  versions: {
    v1: [
      view(customers, { rename: { name: 'title' }, hide: ['credit'], defaults: { credit: '0.00' } }),
      view(invoices, { rename: { customerId: 'buyerId' } }),
    ],
    v2: [customers, invoices],
  },
})
const scopes = Object.keys(definition.scopes).join(' ')

type Row = Record<string, unknown> & { id: number }
const send = (app: TestApp, who: string, request: Parameters<TestApp['send']>[0]) =>
  app.send({ token: token(scopes, who), ...request })
async function create(app: TestApp, url: string, payload: object): Promise<Row> {
  const created = await send(app, 'auditor', { method: 'POST', url: `/v2${url}`, payload })
  assert.equal(created.statusCode, 201, created.body)
  return created.json()
}
/** Returns the ids on all pages in list order, reading the pages forwards or backwards. */
async function walk(app: TestApp, who: string, url: string, backwards = false): Promise<number[]> {
  const ids: number[] = []
  let last = url
  for (let next: string | null = url; next !== null; ) {
    const page = await send(app, who, { url: next })
    assert.equal(page.statusCode, 200, `${next} ${page.body}`)
    const { items, next: following } = page.json()
    ids.push(...items.map(({ id }: Row) => id))
    last = next
    next = following ?? null
  }
  if (!backwards) return ids
  const end = (await send(app, who, { url: last })).json()
  const reversed = end.items.map(({ id }: Row) => id)
  for (let prev: string | null = end.prev ?? null; prev !== null; ) {
    const page = (await send(app, who, { url: prev })).json()
    reversed.unshift(...page.items.map(({ id }: Row) => id))
    prev = page.prev ?? null
  }
  return reversed
}

forEachEngine((engine) => {
  describe('lists sorted by fields of related rows', () => {
    const app = appOn(engine, { definition })
    const made = {} as Record<'ada' | 'bob' | 'eve', Row>
    const rows = {} as Record<'none' | 'eve' | 'bob' | 'ada' | 'late', Row>
    const named = (ids: unknown[]) => ids.map((id) => Object.entries(rows).find(([, row]) => row.id === id)?.[0])
    const listed = async (who: string, query: string) => {
      const response = await send(app, who, { url: `/v2/invoices?${query}` })
      assert.equal(response.statusCode, 200, `${query} ${response.body}`)
      return { names: named(response.json().items.map(({ id }: Row) => id)), response }
    }
    before(async () => {
      const customer = (tenant: string, name: string, level: number) =>
        create(app, '/customers', {
          tenant,
          name,
          level,
          weight: level / 2,
          credit: `${level}.50`,
          since: '2026-01-01',
        })
      made.eve = await customer('south', 'eve', 9)
      made.bob = await customer('north', 'Bob', 1)
      made.ada = await customer('north', 'ada', 2)
      const invoice = (number: string, due: string, customerId?: unknown) =>
        create(app, '/invoices', { number, due, ...(customerId !== undefined && { customerId }) })
      rows.none = await invoice('none', '2026-01-01')
      rows.eve = await invoice('eve', '2026-01-01', made.eve.id)
      rows.bob = await invoice('bob', '2026-01-02', made.bob.id)
      rows.ada = await invoice('ada', '2026-01-03', made.ada.id)
      rows.late = await invoice('late', '2026-01-04', made.ada.id)
    })

    it('200 in the order of the related rows; rows without one come last in both directions', async () => {
      for (const [sort, expected] of [
        ['customer.name', ['ada', 'late', 'bob', 'eve', 'none']],
        ['-customer.name', ['eve', 'bob', 'late', 'ada', 'none']],
        ['customer.name,-due', ['late', 'ada', 'bob', 'eve', 'none']],
        ['-customer.credit', ['eve', 'late', 'ada', 'bob', 'none']],
        ['customer.weight,id', ['bob', 'ada', 'late', 'eve', 'none']],
        ['-customer.id,due', ['ada', 'late', 'bob', 'eve', 'none']],
        ['customer.since,-customer.level', ['eve', 'late', 'ada', 'bob', 'none']],
        ['due,-customer.name', ['eve', 'none', 'bob', 'ada', 'late']],
        ['customer.nick', ['eve', 'bob', 'ada', 'late', 'none']],
        ['payer.name,-id', ['late', 'ada', 'bob', 'eve', 'none']],
      ] as const) {
        assert.deepEqual((await listed('auditor', `sort=${sort}`)).names, expected, sort)
      }
    })

    it('end with the rows whose related row is missing or hidden from the caller', async () => {
      for (const sort of ['customer.name', '-customer.name']) {
        const north = (await listed('crm_north', `sort=${sort}`)).names
        assert.deepEqual(north.slice(3).toSorted(), ['eve', 'none'], sort)
        // Rows with equal sort values are ordered by id, in the direction of the sort.
        assert.deepEqual(north.slice(3), sort.startsWith('-') ? ['eve', 'none'] : ['none', 'eve'])
        assert.deepEqual((await listed('crm_nobody', `sort=${sort}`)).names.length, 5)
      }
      const { names, response } = await listed('crm_south', 'sort=-customer.level,due')
      assert.deepEqual(names, ['eve', 'none', 'bob', 'ada', 'late'])
      assert.match(String(response.headers['cache-control']), /private|no-store/)
      const cursors = JSON.stringify(response.headers.link)
      assert.doesNotMatch(cursors, /sort 0/)
    })

    it('200 with the same items as the unsorted list', async () => {
      const [sorted, plain] = [await listed('auditor', 'sort=customer.credit'), await listed('auditor', '')]
      const byId = (all: Row[]) => all.toSorted((a, b) => a.id - b.id)
      assert.deepEqual(byId(sorted.response.json().items), byId(plain.response.json().items))
    })

    it('200 for a sort combined with filters, search, `or` and an exact count', async () => {
      const headers = { prefer: 'count=exact' }
      const url = '/v2/invoices?q=a&customer.name[not]=eve&or=number:ada,customer.name:ADA&sort=-customer.name,due'
      const response = await send(app, 'crm_north', { url, headers })
      assert.deepEqual(named(response.json().items.map(({ id }: Row) => id)), ['ada', 'late'], response.body)
      assert.equal(response.headers['x-total-count'], '2')
    })

    it('200 for a sort by the version’s field names, 400 for another version’s and for hidden fields', async () => {
      const ids = async (url: string) => {
        const page = (await send(app, 'auditor', { url })).json()
        return (page.items ?? page).map(({ id }: Row) => id)
      }
      assert.deepEqual(await ids('/v1/invoices?sort=buyer.title'), await ids('/v2/invoices?sort=customer.name'))
      for (const sort of ['customer.name', 'buyer.name', 'buyer.credit']) {
        const refused = await send(app, 'auditor', { url: `/v1/invoices?sort=${sort}` })
        assert.equal(refused.statusCode, 400, sort)
        assert.match(refused.json().errors[0].message, /use one of .*due.*buyer\.id, buyer\.nick.*buyer\.title/)
      }
    })

    it('200 instead of 304 once a related row has changed, even if the page has the same items', async () => {
      const url = '/v2/invoices?sort=customer.name&limit=1'
      const first = await send(app, 'auditor', { url })
      assert.match(String(first.headers.etag), /^W\//)
      const headers = { 'if-none-match': String(first.headers.etag) }
      assert.equal((await send(app, 'auditor', { url, headers })).statusCode, 304)
      const rename = async (name: string) => {
        const payload = { name }
        const changed = await send(app, 'auditor', { method: 'PATCH', url: `/v2/customers/${made.ada.id}`, payload })
        assert.equal(changed.statusCode, 200, changed.body)
      }
      await rename('adam')
      const second = await send(app, 'auditor', { url, headers })
      assert.equal(second.statusCode, 200)
      assert.deepEqual(second.json().items, first.json().items)
      assert.deepEqual(
        await walk(app, 'auditor', url),
        [rows.ada, rows.late, rows.bob, rows.eve, rows.none].map((row) => row.id),
      )
      await rename('zoe')
      assert.deepEqual((await listed('auditor', 'sort=customer.name')).names, ['bob', 'eve', 'ada', 'late', 'none'])
      await rename('ada')
    })

    it('200 without skipped or repeated rows when rows are added and deleted between pages', async () => {
      const first = (await send(app, 'auditor', { url: '/v2/invoices?sort=customer.name&limit=2' })).json()
      const extra = await create(app, '/invoices', { number: 'x', due: '2026-01-01', customerId: made.ada.id })
      const removed = await send(app, 'auditor', { method: 'DELETE', url: `/v2/invoices/${rows.late.id}` })
      assert.equal(removed.statusCode, 204)
      const seen = [...first.items.map(({ id }: Row) => id), ...(await walk(app, 'auditor', first.next))]
      const ids = [rows.ada, rows.late, extra, rows.bob, rows.eve, rows.none].map(({ id }) => id)
      assert.deepEqual(seen, ids)
      rows.late = await create(app, '/invoices', { number: 'late', due: '2026-01-04', customerId: made.ada.id })
      await send(app, 'auditor', { method: 'DELETE', url: `/v2/invoices/${extra.id}` })
    })

    it('400 for unknown names, listing the allowed ones, for repeated names and for altered cursors', async () => {
      const refused = async (query: string) => {
        const response = await send(app, 'crm_north', { url: `/v2/invoices?${query}` })
        assert.equal(response.statusCode, 400, `${query} ${response.body}`)
        return response.json().errors[0].message as string
      }
      const allowed =
        'id, due, number, createdAt, updatedAt, customer.id, customer.nick, customer.weight, customer.credit, ' +
        'customer.name, customer.level, customer.since, customer.createdAt, customer.updatedAt, payer.id'
      for (const name of [
        'customer.secret',
        'customer.tenant',
        'client.name',
        'customer.customer.name',
        'customer',
        'customer.',
      ]) {
        const message = await refused(`sort=-${name}`)
        assert.ok(message.startsWith(`does not support '${name}'; use one of ${allowed}`), message)
      }
      assert.equal(await refused('sort=customer.name,-customer.name'), 'must name each field at most once')
      const { next } = (await send(app, 'crm_north', { url: '/v2/invoices?sort=customer.level&limit=1' })).json()
      const cursor = new URL(next, 'https://plinth.test').searchParams.get('cursor') ?? ''
      const [mark, direction, , , id] = JSON.parse(Buffer.from(cursor, 'base64url').toString())
      const wrong = [
        [2, 1],
        ['0', 1],
        [0, '1'],
        [0, 1.5],
        [0, 2 ** 60],
      ]
      for (const values of wrong) {
        const altered = Buffer.from(JSON.stringify([mark, direction, ...values, id])).toString('base64url')
        assert.equal(await refused(`sort=customer.level&cursor=${altered}`), 'is not a valid cursor')
      }
      assert.match(await refused(`sort=customer.weight&cursor=${cursor}`), /different filter or sort/)
    })

    it('403 without the scope of the related collection, 401 without a token', async () => {
      const url = '/v2/invoices?sort=customer.name'
      assert.equal((await app.send({ url, scopes: 'invoices:read' })).statusCode, 403)
      assert.equal(
        (await app.send({ url: '/v2/invoices?or=customer.name:Ada', scopes: 'invoices:read' })).statusCode,
        403,
      )
      assert.equal((await app.send({ url, scopes: null })).statusCode, 401)
      assert.equal(
        (await app.send({ url: '/v2/invoices?or=number:"a,customer.name:b"', scopes: 'invoices:read' })).statusCode,
        200,
      )
    })

    it('are documented in OpenAPI with the field names of the version', async () => {
      const document = (await app.send({ url: '/v1/openapi.json', scopes: null })).json()
      const listed = document.paths['/invoices'].get.parameters as { $ref?: string; name: string }[]
      const all = listed.map((one) => (one.$ref ? document.components.parameters[one.$ref.split('/')[3] ?? ''] : one))
      const { description, schema } = all.find(({ name }) => name === 'sort')
      assert.match(description, /due, .*buyer\.title, /)
      const accepts = new RegExp(schema.pattern)
      assert.ok(accepts.test('buyer.title,-due') && !accepts.test('buyerxtitle') && !accepts.test('buyer.name'))
    })
  })

  describe('two services that differ in related rows that the caller cannot read', () => {
    const apps = [appOn(engine, { definition }), appOn(engine, { definition })]

    it('give identical pages for sorts and `or` filters by fields of the related rows', async () => {
      for (const [at, app] of apps.entries()) {
        const add = async (tenant: string, name: string, level: number) => {
          const more = { weight: level, credit: `${level}.00`, since: `2026-01-0${level}` }
          return (await create(app, '/customers', { tenant, name, nick: name, level, ...more })).id
        }
        const ids = [await add('north', 'Ada', 1), await add('south', at ? 'Zoe' : 'Abe', at ? 9 : 1)]
        ids.push(await add('south', at ? 'Abe' : 'Bob', at ? 2 : 5), await add('north', 'Bob', 3))
        for (const [place, customerId] of [...ids, ...ids.toReversed(), undefined].entries()) {
          const customer = customerId === undefined ? {} : { customerId, payerId: ids[0] }
          await create(app, '/invoices', { number: `n${place}`, due: '2026-01-01', ...customer })
        }
      }
      const fields = ['id', 'name', 'nick', 'level', 'weight', 'credit', 'since', 'updatedAt']
      const queries = [
        ...fields.flatMap((field) => [`sort=customer.${field}`, `sort=due,-customer.${field},-number`]),
        ...['customer.name:Abe', 'customer.level[not]:9,number:n1', 'customer.nick[null]:false'].map(
          (or) => `or=${or}`,
        ),
      ]
      for (const query of queries) {
        let urls: (string | null)[] = apps.map(() => `/v2/invoices?limit=2&${query}`)
        while (urls[0] !== null) {
          const responses = await Promise.all(
            apps.map((app, at) => send(app, 'crm_north', { url: urls[at] ?? '', headers: { prefer: 'count=exact' } })),
          )
          const [one, other] = responses.map(({ statusCode, headers, body }) => ({
            ...{ statusCode, body, etag: headers.etag, link: headers.link, count: headers['x-total-count'] },
          }))
          assert.deepEqual(one, other, query)
          assert.equal(one?.statusCode, 200, one?.body)
          urls = responses.map((response) => response.json().next)
        }
      }
    })
  })

  describe(`random lists sorted by fields of related rows (SEED=${seed})`, () => {
    const app = appOn(engine, { definition })
    const known = new Map<number, Row>()
    const rows: Row[] = []
    const texts = fc.constantFrom('a', 'A', 'b', 'É', 'é', 'z', '𝒜', 'ﬁ', 'fi', '~', '\ud7ff', '\ue000')
    const customer = fc.record(
      {
        ...{
          tenant: fc.constantFrom('north', 'south'),
          name: texts,
          nick: texts,
          level: fc.integer({ min: -2, max: 2 }),
        },
        weight: fc.constantFrom(-1.5, 0, 0.1, 1e21),
        credit: fc.constantFrom('0.00', '-0.05', '10.50', '9999999999999999.99', '9999999999999999.98'),
        since: fc.constantFrom('2026-01-01', '2026-01-02'),
      },
      { requiredKeys: ['tenant', 'name', 'level', 'weight', 'credit', 'since'] },
    )
    const place = fc.nat(14)
    const invoice = fc.record(
      { number: texts, due: fc.constantFrom('2026-01-01', '2026-01-02'), customer: place, payer: place },
      { requiredKeys: ['number', 'due'] },
    )
    before(async () => {
      const ids: number[] = []
      for (const payload of fc.sample(customer, { seed, numRuns: 15 })) {
        const row = await create(app, '/customers', payload)
        known.set(row.id, row)
        ids.push(row.id)
      }
      for (const { customer, payer, ...body } of fc.sample(invoice, { seed, numRuns: 40 })) {
        const customerId = customer === undefined ? {} : { customerId: ids[customer] }
        const payerId = payer === undefined ? {} : { payerId: ids[payer] }
        rows.push(await create(app, '/invoices', { ...body, ...customerId, ...payerId }))
      }
    })

    const sortable = ['name', 'nick', 'level', 'weight', 'credit', 'since', 'id']
    const names = [
      ...['customer', 'payer'].flatMap((one) => sortable.map((field) => `${one}.${field}`)),
      'due',
      'number',
    ]
    const sort = fc.uniqueArray(fc.record({ name: fc.constantFrom(...names), isDown: fc.boolean() }), {
      ...{ minLength: 1, maxLength: 4, selector: ({ name }) => name },
    })
    const alternative = fc.record({
      path: fc.constantFrom('customer.name', 'payer.level', 'customer.nick', 'number', 'due'),
      operator: fc.constantFrom('', '[not]'),
      text: texts,
      level: fc.integer({ min: -2, max: 2 }),
      day: fc.constantFrom('2026-01-01', '2026-01-02'),
    })
    const query = fc.record({
      ...{ sort, either: fc.array(alternative, { maxLength: 3 }), limit: fc.integer({ min: 4, max: 40 }) },
      ...{ who: fc.constantFrom('auditor', 'crm_north', 'crm_nobody'), backwards: fc.boolean() },
    })

    const related = (who: string, row: Row, relation: string) => {
      const other = known.get(row[`${relation}Id`] as number)
      return other && (who === 'auditor' || `crm_${other.tenant}` === who) ? other : undefined
    }
    const sortedValue = (who: string, row: Row, path: string): unknown => {
      const [relation, field] = path.split('.')
      return field === undefined ? row[path] : (related(who, row, relation as string)?.[field] ?? '')
    }
    const compared = (one: unknown, other: unknown, path: string): number => {
      if (path.endsWith('credit')) {
        const digits = (value: unknown) => BigInt(String(value || '0').replace('.', ''))
        return Number(digits(one) - digits(other))
      }
      if (typeof one === 'number' || typeof other === 'number') return Number(one || 0) - Number(other || 0)
      const bytes = (value: unknown) => Buffer.from(caseFold(String(value)))
      return Buffer.compare(bytes(one), bytes(other))
    }
    const orderFor = (who: string, sorts: readonly { name: string; isDown: boolean }[]) => (a: Row, b: Row) => {
      for (const { name, isDown } of sorts) {
        const [relation = '', field] = name.split('.')
        const missing = (row: Row) => Number(field !== undefined && related(who, row, relation) === undefined)
        const order = missing(a) - missing(b)
        if (order !== 0) return order
        const values = compared(sortedValue(who, a, name), sortedValue(who, b, name), name)
        if (values !== 0) return isDown ? -values : values
      }
      return sorts.at(-1)?.isDown ? b.id - a.id : a.id - b.id
    }

    it('200 with the rows and the order of a naive model, for every caller, in both directions', async () => {
      await fc.assert(
        fc.asyncProperty(query, async ({ sort, either, limit, who, backwards }) => {
          const operand = ({ path, text, level, day }: (typeof either)[number]) =>
            path.endsWith('level') ? level : path === 'due' ? day : text
          const holds = (row: Row) => (one: (typeof either)[number]) => {
            const relation = one.path.includes('.') ? one.path.split('.')[0] : undefined
            if (relation !== undefined && related(who, row, relation) === undefined) return false
            const same = caseFold(String(sortedValue(who, row, one.path))) === caseFold(String(operand(one)))
            return one.operator === '' ? same : !same
          }
          const expected = rows
            .filter((row) => either.length === 0 || either.some(holds(row)))
            .toSorted(orderFor(who, sort))
            .map(({ id }) => id)
          const or = either.map((one) => `${one.path}${one.operator}:${operand(one)}`).join()
          const by = sort.map(({ name, isDown }) => (isDown ? `-${name}` : name)).join()
          const url = `/v2/invoices?sort=${by}&limit=${limit}${or && `&or=${encodeURIComponent(or)}`}`
          assert.deepEqual(await walk(app, who, url, backwards), expected, `${who} ${decodeURIComponent(url)}`)
        }),
        { seed, numRuns: runs },
      )
    })
  })
})
