import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import fc from 'fast-check'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { definition, hide, rename, scopes } from './service.ts'

/** SEED reproduces a failed run; RUNS is the number of cases. */
const seed = Number(process.env.SEED ?? 20_261_123)
const runs = Number(process.env.RUNS ?? 90)

type Members = Record<string, unknown>
const hidden: readonly string[] = hide
/** Returns a v2 field's name in v1; undefined if v1 hides the field. */
const shown = (field: string): string | undefined =>
  hidden.includes(field) ? undefined : ((rename as Record<string, string>)[field] ?? field)

/** Converts a v2 representation, including related rows, to the expected v1 representation. */
const renamed = (members: Members): Members =>
  Object.fromEntries(
    Object.entries(members).flatMap(([field, value]): [string, unknown][] => {
      if (field === 'customer') return [['client', value]]
      const name = shown(field)
      if (name === undefined) return []
      return [[name, field === '_links' ? JSON.parse(JSON.stringify(value).replaceAll('/v2/', '/v1/')) : value]]
    }),
  )

const values: Record<string, unknown[]> = {
  customerId: [1, 2, 3, 999],
  status: ['draft', 'sent', 'paid', 'lost'],
  issued: ['2026-03-01', '2026-03-05', 'never'],
  due: ['2026-02-01', '2026-03-01', '2026-04-01', null],
  total: ['1.00', '20.5', '1000.00', '5000.00', '1.234', null],
  remark: ['a needle', 'B', null, 7],
  address: [{ city: 'Bonn' }, { city: 'Ulm', zip: '1' }, { zip: null }, {}, null],
  pin: ['1', null],
}
const sampleOf = (field: string) => fc.constantFrom(...(values[field] as unknown[]))
const body = fc.record(Object.fromEntries(Object.keys(values).map((field) => [field, sampleOf(field)])), {
  requiredKeys: [],
})
/** A valid body, with changes that most writes can store. */
const valid = fc.record(
  {
    customerId: fc.constantFrom(1, 2, 3),
    issued: fc.constantFrom('2026-03-01', '2026-03-05'),
    total: fc.integer({ min: 1, max: 200_000 }).map((cents) => (cents / 100).toFixed(2)),
    status: fc.constantFrom('draft', 'sent', 'paid'),
    due: fc.constantFrom('2026-03-10', '2026-04-01'),
    remark: fc.constantFrom('a needle', 'B'),
    address: fc.constantFrom({ city: 'Bonn' }, { city: 'Ulm', zip: '1' }),
  },
  { requiredKeys: ['customerId', 'issued', 'total'] },
)

/** Maps a v2 field name to the field's name in one version. */
type Name = (field: string) => string
const upper = (name: string) => `${name[0]?.toUpperCase()}${name.slice(1)}`
/** Query parameters, each as a function of a version's field names. */
const parameter = fc.oneof(
  ...[
    fc.constantFrom('draft', 'sent,paid').map((value) => (n: Name) => `${n('status')}=${value}`),
    fc.constantFrom(1, 2).map((value) => (n: Name) => `${n('customerId')}=${value}`),
    fc.constantFrom('5.00', '500.00').map((value) => (n: Name) => `min${upper(n('total'))}=${value}`),
    fc.constantFrom('5.00', '900.00').map((value) => (n: Name) => `${n('total')}[before]=${value}`),
    fc.constantFrom('2026-03-20').map((value) => (n: Name) => `${n('due')}After=${value}`),
    fc.boolean().map((value) => (n: Name) => `${n('due')}[null]=${value}`),
    fc.constantFrom('r-1', 'R-2').map((value) => (n: Name) => `${n('reference')}[prefix]=${value}`),
    fc.constantFrom('needle', 'r-1').map((value) => () => `q=${value}`),
    fc.constantFrom('2', 'paid').map((value) => (n: Name) => `or=${n('customerId')}:2,${n('status')}:${value}`),
    fc.constantFrom('', '-').map((sign) => (n: Name) => `sort=${sign}${n('total')},${n('reference')}`),
    fc.constant((n: Name) => `fields=id,${n('total')},${n('remark')},${n('address')}.city`),
    fc.constantFrom(1, 3, 100).map((limit) => () => `limit=${limit}`),
    fc.constant((n: Name) => `expand=${n('customerId').slice(0, -2)}`),
  ],
)
const query = fc.uniqueArray(parameter, { maxLength: 4, selector: (one) => one((field) => field).split('=')[0] })

forEachEngine((engine) => {
  describe(`random requests through a view (SEED=${seed})`, () => {
    const app = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => app.send({ scopes, ...request })
    let made = 0
    const create = async (more: Members): Promise<number> => {
      const payload = { reference: `R-${++made}`, currency: 'USD', origin: 'app', amount: made, ...more }
      const created = await send({ method: 'POST', url: '/v2/invoices', payload })
      return created.statusCode === 201 ? created.json().id : 0
    }
    const own = async (id: number): Promise<Members> => (await send({ url: `/v2/invoices/${id}` })).json()
    /** Returns a stored row without the members that are unique to each row. */
    const stored = async (id: number): Promise<Members> => {
      const { id: _, reference, createdAt, updatedAt, _links, ...rest } = await own(id)
      return { ...rest, isKept: String(reference).startsWith('R-') }
    }
    const fieldsOf = (response: { json: () => { errors?: { field: string }[]; error?: { details?: unknown } } }) =>
      JSON.stringify(response.json())
        .match(/"field":"(\w+)/g)
        ?.map((found) => found.slice(9))
        .toSorted() ?? []
    before(async () => {
      for (const name of ['Ada', 'Bob', 'Cyd']) {
        await send({ method: 'POST', url: '/v2/customers', payload: { name } })
      }
      for (const payload of fc.sample(valid, { seed, numRuns: 60 })) await create(payload)
    })

    it('list and read the same rows as v2, with the view’s field names', async () => {
      let compared = 0
      const inV1: Name = (field) => shown(field) ?? field
      await fc.assert(
        fc.asyncProperty(query, fc.nat(60), async (parameters, id) => {
          const of = (name: Name) => parameters.map((one) => one(name)).join('&')
          const [v1, v2] = await Promise.all([
            send({ url: `/v1/invoices?${of(inV1)}` }),
            send({ url: `/v2/invoices?${of((field) => field)}` }),
          ])
          assert.equal(v1.statusCode, v2.statusCode, `${of(inV1)} ${v1.body} ${v2.body}`)
          if (v2.statusCode !== 200) return
          const rows: Members[] = v2.json()
          assert.deepEqual(v1.json(), rows.map(renamed))
          const single = await Promise.all(['/v1', '/v2'].map((prefix) => send({ url: `${prefix}/invoices/${id}` })))
          assert.equal(single[0]?.statusCode, single[1]?.statusCode)
          if (single[1]?.statusCode === 200) assert.deepEqual(single[0]?.json(), renamed(single[1].json()))
          compared += rows.length
        }),
        { seed, numRuns: runs },
      )
      assert.ok(compared > runs, `only ${compared} rows`)
    })

    it('are accepted or rejected exactly as in v2, and leave hidden fields unchanged', async () => {
      let written = 0
      const sent = fc.record({ method: fc.constantFrom('POST', 'PUT', 'PATCH'), base: valid, more: body })
      await fc.assert(
        fc.asyncProperty(sent, fc.boolean(), async ({ method, base, more }, isMostlyValid) => {
          const start = {
            customerId: 1,
            issued: '2026-03-01',
            total: `${1_000_000 + ++made}.00`,
            currency: 'EUR',
            amount: 3,
          }
          const change: Members = method === 'PATCH' ? more : { ...base, ...(isMostlyValid ? {} : more) }
          // Two rows that differ only in unique values.
          const [one, two] = [await create(start), await create({ ...start, total: `${2_000_000 + made}.00` })]
          const before = await own(two)
          const kept = Object.fromEntries(hidden.map((field) => [field, before[field]]))
          const defaults = { currency: 'EUR', origin: 'v1 2026', amount: 0 }
          const reference = () => (method === 'PATCH' ? {} : { reference: `R-${++made}` })
          const inV1 = { ...renamed({ ...change, ...reference() }), currency: 'GBP', reference: 7 }
          const inV2 = { ...change, ...reference(), ...(method === 'POST' ? defaults : method === 'PUT' ? kept : {}) }
          const url = (version: string, id: number) => `/${version}/invoices${method === 'POST' ? '' : `/${id}`}`
          const v1 = await send({ method: method as 'POST', url: url('v1', one), payload: inV1 })
          // Read and delete the v1 row first, because v2 writes the same unique values.
          const stored1 = v1.statusCode < 300 ? await stored(v1.json().id) : await stored(one)
          if (v1.statusCode < 300) {
            assert.deepEqual(v1.json(), renamed(await own(v1.json().id)))
            await send({ method: 'DELETE', url: `/v2/invoices/${v1.json().id}` })
          }
          const v2 = await send({ method: method as 'POST', url: url('v2', two), payload: inV2 })
          const context = `${method} ${JSON.stringify([inV1, inV2])} ${v1.body} ${v2.body}`
          assert.equal(v1.statusCode, v2.statusCode, context)
          if (v2.statusCode >= 300) {
            assert.deepEqual(
              fieldsOf(v1),
              fieldsOf(v2)
                .map((field) => shown(field) ?? field)
                .toSorted(),
              context,
            )
            return
          }
          const stored2 = await stored(v2.json().id)
          // A patch without `total` keeps the total, which differs between the two rows.
          const isOwnTotal = method === 'PATCH' && !('total' in change)
          assert.deepEqual({ ...stored1, ...(isOwnTotal && { total: stored2.total }) }, stored2, context)
          await send({ method: 'DELETE', url: `/v2/invoices/${v2.json().id}` })
          written++
        }),
        { seed, numRuns: runs },
      )
      assert.ok(written > runs / 5, `only ${written} writes`)
    })
  })
})
