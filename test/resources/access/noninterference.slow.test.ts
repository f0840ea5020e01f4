import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Decimal, Line, plinth, Ref, Type } from '../../../src/plinth.ts'
import { appOn, type TestApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

/** SEED reproduces a run; RUNS is the number of rounds, each of which compares two new services over 40 requests. */
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))
const rounds = Number(process.env.RUNS ?? 2)

const { collection, service } = plinth({ claims: ({ client }) => ({ tenant: client.id.split('_')[1] }) })
const customers = collection({
  path: '/customers',
  noun: 'customer',
  body: Type.Object({
    tenant: Line(1, 40),
    name: Line(1, 40),
    level: Type.Optional(Type.Integer()),
    upperId: Type.Optional(Ref('self', { onDelete: 'setNull' })),
  }),
  unique: [['tenant', 'name']],
  filters: ['name', 'level', 'upperId'],
  ranges: ['level'],
  search: ['name'],
  sorts: ['name'],
  access: (caller) => ({ tenant: caller.claims.tenant }),
})
const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    customerId: Ref(customers),
    payerId: Type.Optional(Ref(customers, { onDelete: 'setNull' })),
    status: Type.Enum(['draft', 'sent', 'paid']),
  }),
  computed: {
    total: { sum: 'lines.amount', as: Decimal(5, 2) },
    lineCount: { count: 'lines' },
    isOpen: { when: { status: { not: 'paid' } } },
  },
  filters: ['status', 'customerId', 'payerId', 'total', 'isOpen'],
  sorts: ['total', 'lineCount'],
  locked: { status: 'paid' },
  access: (caller) => ({ customer: { tenant: caller.claims.tenant } }),
})
const lines = collection({
  path: '/lines',
  noun: 'line',
  body: Type.Object({ invoiceId: Ref(invoices, { onDelete: 'cascade' }), text: Line(1, 40), amount: Decimal(5, 2) }),
  filters: ['text', 'invoiceId', 'amount'],
  search: ['text'],
  access: { of: 'invoice' },
})
const definition = service({ resources: [customers, invoices, lines] })
const scopes = Object.keys(definition.scopes).join(' ')
type Request = Parameters<TestApp['send']>[0]

const names = ['Ada', 'Eve', 'Bob', 'Zoe']
const name = fc.constantFrom(...names)
const tenant = fc.constantFrom('north', 'south')
const status = fc.constantFrom('draft', 'sent', 'paid')
const amount = fc.constantFrom('0.00', '1.50', '400.00', '999.99', '-400.00')
const level = fc.integer({ min: 0, max: 3 })
/** Ids of both tenants' rows and of missing rows. */
const id = fc.integer({ min: 1, max: 9 })
const any = fc.oneof
const merge = { 'content-type': 'application/merge-patch+json' }

/** The hidden tenant's rows: always three per collection, so that both services have the same ids. */
const world = fc.record({
  shift: fc.nat(3),
  levels: fc.array(level, { minLength: 3, maxLength: 3 }),
  statuses: fc.array(status, { minLength: 3, maxLength: 3 }),
  amounts: fc.array(amount, { minLength: 3, maxLength: 3 }),
})
type World = typeof world extends fc.Arbitrary<infer T> ? T : never

const common = ['limit=1', 'limit=2', 'fields=id,createdBy', 'createdAfter=2020-01-01']
const parameters = {
  customers: any(
    name.map((value) => `name=${value}`),
    name.map((value) => `name[prefix]=${value.slice(0, 1)}`),
    name.map((value) => `q=${value}`),
    level.map((value) => `level[from]=${value}`),
    level.map((value) => `level[not]=${value}`),
    id.map((value) => `upperId[not]=${value}`),
    level.map((value) => `upper.level[not]=${value}`),
    name.map((value) => `upper.name[in]=${value},Bob`),
    level.map((value) => `or=upper.level[not]:${value},level:0`),
    fc.constantFrom('sort=upper.name', 'sort=-upper.name,-level', 'sort=name,upper.id', 'or=upper.level[null]:true'),
    fc.constantFrom('upper.level[null]=true', 'upperId[null]=true', 'sort=name', 'sort=-name', ...common),
    fc.constantFrom('expand=upper.upper', 'expand=upper'),
  ),
  invoices: any(
    status.map((value) => `status=${value},draft`),
    amount.map((value) => `total[to]=${value}`),
    id.map((value) => `customerId[not]=${value}`),
    id.map((value) => `payerId=${value}`),
    name.map((value) => `customer.name[not]=${value}`),
    level.map((value) => `payer.level[from]=${value}`),
    fc.constantFrom('or=status:draft,total[from]:1', 'or=payerId[null]:true,total[before]:0'),
    name.map((value) => `or=customer.name[not]:${value},payer.name:${value}`),
    fc.constantFrom('sort=customer.name', 'sort=-payer.level,-total', 'sort=payer.updatedAt', 'sort=-customer.id'),
    fc.constantFrom('payer.level[null]=true', 'isOpen=true', 'sort=-total', 'sort=lineCount', ...common),
    fc.constantFrom('expand=lines,payer', 'expand=customer.upper,lines', 'expand=lines.invoice.payer'),
  ),
  lines: any(
    name.map((value) => `text=${value}`),
    name.map((value) => `q=${value}`),
    amount.map((value) => `amount[after]=${value}`),
    id.map((value) => `invoiceId[not]=${value}`),
    amount.map((value) => `invoice.total[from]=${value}`),
    fc.constantFrom('sort=invoice.total,-text', 'sort=-invoice.lineCount', 'or=invoice.isOpen:true,text:Ada'),
    fc.constantFrom('invoice.isOpen=false', 'invoice.status[in]=sent,paid', ...common),
    fc.constantFrom('expand=invoice.customer.upper', 'expand=invoice.lines'),
  ),
}
type Path = keyof typeof parameters
const queryOf = (path: Path) =>
  fc.uniqueArray(parameters[path], { maxLength: 3, selector: (text) => text.split('=')[0] }).map((all) => all.join('&'))
const readOf = (path: Path) => {
  const query =
    path === 'invoices' ? ['expand=lines', 'expand=payer.upper', 'fields=id'] : ['fields=id', 'expand=nothing']
  return fc.constantFrom('', '', ...query)
}
const condition = fc.constantFrom<Record<string, string>>(
  ...[
    {},
    {},
    {},
    {},
    { 'if-match': '"1"' },
    { 'if-match': '"2"' },
    { 'if-none-match': '*' },
    { prefer: 'count=exact' },
  ],
)
const bodies = {
  customers: fc.record(
    { tenant: fc.oneof({ weight: 3, arbitrary: fc.constant('north') }, tenant), name, level, upperId: id },
    { requiredKeys: ['tenant', 'name'] },
  ),
  invoices: fc.record({ customerId: id, payerId: id, status }, { requiredKeys: ['customerId', 'status'] }),
  lines: fc.record({ invoiceId: id, text: name, amount }),
}
const patches = {
  customers: fc.record({ tenant, name, level, upperId: fc.option(id) }, { requiredKeys: [] }),
  invoices: fc.record({ customerId: id, payerId: fc.option(id), status }, { requiredKeys: [] }),
  lines: fc.record({ invoiceId: id, text: name, amount }, { requiredKeys: [] }),
}

const requestsOf = (path: Path): fc.Arbitrary<Request> =>
  any(
    {
      weight: 5,
      arbitrary: fc
        .record({ query: queryOf(path), headers: condition })
        .map(({ query, headers }) => ({ url: `/${path}?${query}`, headers })),
    },
    {
      weight: 2,
      arbitrary: fc
        .record({
          id,
          query: readOf(path),
          headers: condition,
          method: fc.constantFrom('GET' as const, 'HEAD' as const),
        })
        .map(({ id, query, ...rest }) => ({ ...rest, url: `/${path}/${id}?${query}` })),
    },
    {
      weight: 2,
      arbitrary: fc
        .record({ id, query: queryOf('lines') })
        .map(({ id, query }) => ({ url: `/invoices/${id}/lines?${query}` })),
    },
    {
      weight: 3,
      arbitrary: bodies[path].map((payload: object) => ({ method: 'POST' as const, url: `/${path}`, payload })),
    },
    {
      weight: 2,
      arbitrary: fc
        .record({ id, payload: bodies[path] as fc.Arbitrary<object>, headers: condition })
        .map(({ id, ...rest }) => ({ ...rest, method: 'PUT' as const, url: `/${path}/${id}` })),
    },
    {
      weight: 3,
      arbitrary: fc
        .record({ id, payload: patches[path] as fc.Arbitrary<object>, headers: condition })
        .map(({ id, payload, headers }) => ({
          ...{ method: 'PATCH' as const, url: `/${path}/${id}`, payload, headers: { ...headers, ...merge } },
        })),
    },
    { weight: 1, arbitrary: id.map((one) => ({ method: 'DELETE' as const, url: `/${path}/${one}` })) },
  )
const request = any(requestsOf('customers'), requestsOf('invoices'), requestsOf('lines'))

const drawn = fc.sample(fc.tuple(world, world, fc.array(request, { minLength: 40, maxLength: 40 })), {
  seed,
  numRuns: rounds,
})
const send = (app: TestApp, who: string, request: Request) => app.send({ token: token(scopes, who), ...request })

/** Fills a service, alternating between the tenants, so that their ids interleave. */
async function fill(app: TestApp, { shift, levels, statuses, amounts }: World): Promise<void> {
  const add = async (tenant: string, url: string, payload: object) => {
    const created = await send(app, `crm_${tenant}`, { method: 'POST', url, payload })
    assert.equal(created.statusCode, 201, created.body)
    return created.json().id as number
  }
  const ids: Record<string, number[]> = { north: [], south: [] }
  const own = { shift: 0, levels: [0, 1, 2], statuses: ['draft', 'sent', 'paid'], amounts: ['0.00', '1.50', '400.00'] }
  const contents = { north: own, south: { shift, levels, statuses, amounts } }
  const tenants = ['south', 'north'] as const
  for (const at of [0, 1, 2]) {
    for (const tenant of tenants) {
      const { shift, levels } = contents[tenant]
      const upperId = ids[tenant]?.[(at + shift) % 3]
      const payload = { tenant, name: names[(at + shift) % 4], level: levels[at], ...(upperId && { upperId }) }
      ids[tenant]?.push(await add(tenant, '/customers', payload))
    }
  }
  for (const at of [0, 1, 2]) {
    for (const tenant of tenants) {
      const { shift, statuses, amounts } = contents[tenant]
      const [customerId, payerId] = [ids[tenant]?.[(at + shift) % 3], ids[tenant]?.[at]]
      const invoiceId = await add(tenant, '/invoices', { customerId, payerId, status: 'draft' })
      await add(tenant, '/lines', { invoiceId, text: names[(at + shift) % 4], amount: amounts[at] })
      const change = { method: 'PATCH', url: `/invoices/${invoiceId}`, headers: merge } as const
      await send(app, `crm_${tenant}`, { ...change, payload: { status: statuses[at] } })
    }
  }
}

/** Returns what a caller can observe in a response. */
const observed = ({ statusCode, headers, body }: Awaited<ReturnType<TestApp['send']>>) => ({
  ...{ statusCode, etag: headers.etag, link: headers.link, location: headers.location },
  ...{ count: headers['x-total-count'], modified: headers['last-modified'], names: Object.keys(headers).sort() },
  body: body.replace(/urn:request:[^"]*|"requestId":"[^"]*"|"timestamp":"[^"]*"/g, ''),
})

forEachEngine((engine) => {
  for (const [round, [first, second, requests]] of drawn.entries()) {
    describe(`two services that differ in the rows of one tenant (SEED=${seed}, round ${round})`, () => {
      const [one, other] = [
        appOn(engine, { prefixes: [''], definition }),
        appOn(engine, { prefixes: [''], definition }),
      ]

      it('give the other tenant identical responses', async () => {
        await Promise.all([fill(one, first), fill(other, second)])
        for (const [at, request] of requests.entries()) {
          const responses = await Promise.all([one, other].map((app) => send(app, 'crm_north', request)))
          const [left, right] = responses.map(observed)
          assert.deepEqual(left, right, `SEED=${seed}, round ${round}, request ${at}: ${JSON.stringify(request)}`)
          assert.ok((left?.statusCode ?? 500) < 500, JSON.stringify([request, left]))
        }
      })
    })
  }
})
