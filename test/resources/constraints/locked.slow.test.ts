import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { plinth } from '../../../src/definition/plinth.ts'
import { service as define } from '../../../src/definition/service.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Day, Title } from '../../../src/resources/field-types.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import { appOn, type TestApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const customers = collection({ path: '/customers', noun: 'customer', body: Type.Object({ name: Title }) })
const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    customerId: Ref(customers, { onDelete: 'cascade' }),
    payerId: Type.Optional(Ref(customers, { onDelete: 'setNull' })),
    status: Type.Enum(['draft', 'sent', 'paid']),
    note: Type.Optional(Title),
  }),
  locked: { status: 'paid' },
})
const plans = collection({
  path: '/plans',
  noun: 'plan',
  body: Type.Object({ until: Day }),
  locked: { until: { before: 'today' } },
})
const member = plinth({ claims: () => ({}) })
const drafts = member.collection({
  path: '/drafts',
  noun: 'draft',
  body: Type.Object({ title: Title, done: Type.Boolean() }),
  access: {
    read: (caller) => caller.may('drafts:all') || { createdBy: caller.id },
    write: (caller) => ({ createdBy: caller.id }),
  },
  locked: { done: true, createdBy: { prefix: 'user:' } },
})
const periods = collection({
  path: '/periods',
  noun: 'period',
  body: Type.Object({ year: Type.Integer(), isClosed: Type.Boolean(), until: Type.Optional(Day) }),
})
const entries = member.collection({
  path: '/entries',
  noun: 'entry',
  body: Type.Object({
    periodId: Ref(periods, { onDelete: 'cascade' }),
    otherId: Type.Optional(Ref(periods, { onDelete: 'setNull' })),
    text: Title,
  }),
  access: () => true,
  locked: { any: [{ period: { isClosed: true } }, { other: { isClosed: true, year: { before: 2020 } } }] },
})
const remarks = member.collection({
  path: '/remarks',
  noun: 'remark',
  body: Type.Object({ entryId: Ref(entries, { onDelete: 'cascade' }), text: Title }),
  access: { of: 'entry' },
})
const resources = [customers, invoices, plans, drafts, periods, entries, remarks]
const definition = define({ resources, zone: 'Pacific/Kiritimati' })
const names = resources.map(({ declaration }) => declaration.name)
const scopes = names.map((name) => `${name}:read ${name}:write`).join(' ')

forEachEngine((engine) => {
  describe('locked rows', () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const create = async (url: string, payload: object) => {
      const answer = await send({ method: 'POST', url, payload })
      assert.equal(answer.statusCode, 201, answer.body)
      return `${url}/${answer.json().id}`
    }
    const customer = async () => Number((await create('/customers', { name: 'Ada' })).split('/')[2])
    const stored = async (url: string) => (await send({ url })).json()
    const codeOf = async (request: Parameters<TestApp['send']>[0]) => {
      const answer = await send(request)
      return [answer.statusCode, answer.body === '' ? '' : answer.json().errorCode]
    }

    it('409 RESOURCE_LOCKED for PUT, PATCH and DELETE; nothing changes', async () => {
      const customerId = await customer()
      const url = await create('/invoices', { customerId, status: 'paid' })
      const before = await stored(url)
      for (const [method, payload] of [
        ['PUT', { customerId, status: 'draft' }],
        ['PATCH', { note: 'Late' }],
        ['PATCH', {}],
        ['DELETE', undefined],
      ] as const) {
        const answer = await send({ method, url, ...(payload && { payload }) })
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [409, 'RESOURCE_LOCKED'], method)
        assert.match(answer.json().detail, /^The invoice \d+ cannot be changed or deleted in its present state$/)
      }
      assert.deepEqual(await stored(url), before)
    })

    it('200 for a change that locks the row, 409 for a change that would unlock it', async () => {
      const url = await create('/invoices', { customerId: await customer(), status: 'sent' })
      const paid = await send({ method: 'PATCH', url, payload: { status: 'paid' } })
      assert.deepEqual([paid.statusCode, paid.json().status], [200, 'paid'])
      assert.deepEqual(await codeOf({ method: 'PATCH', url, payload: { status: 'sent' } }), [409, 'RESOURCE_LOCKED'])
    })

    it('404 for a missing row and 412 for an outdated If-Match tag take precedence over 409', async () => {
      const customerId = await customer()
      const url = await create('/invoices', { customerId, status: 'paid' })
      const [outdated, current] = [{ 'if-match': '"7"' }, { 'if-match': '"1"' }]
      for (const [method, payload] of [
        ['PUT', { customerId, status: 'draft' }],
        ['PATCH', { status: 'draft' }],
        ['DELETE', undefined],
      ] as const) {
        const sent = { method, ...(payload && { payload }) }
        assert.deepEqual(await codeOf({ ...sent, url, headers: outdated }), [412, 'PRECONDITION_FAILED'])
        assert.deepEqual(await codeOf({ ...sent, url, headers: current }), [409, 'RESOURCE_LOCKED'])
        assert.deepEqual(await codeOf({ ...sent, url: '/invoices/99999' }), [404, 'RESOURCE_NOT_FOUND'])
      }
    })

    it('404 and 403 for callers who may not read or write the row take precedence over 409', async () => {
      const of = (subject: string, more = '') => token(`${scopes} ${more}`, 'cli_web', subject)
      const payload = { title: 'Mine', done: true }
      const made = await service.send({ token: of('7'), method: 'POST', url: '/drafts', payload })
      assert.equal(made.statusCode, 201, made.body)
      const url = `/drafts/${made.json().id}`
      const statuses = async (method: 'PATCH' | 'PUT' | 'DELETE') => {
        const sent = { method, url, ...(method !== 'DELETE' && { payload }) } as const
        const callers = [of('8'), of('8', 'drafts:all'), of('7')]
        const answers = await Promise.all(callers.map((one) => service.send({ token: one, ...sent })))
        return answers.map(({ statusCode }) => statusCode)
      }
      for (const method of ['PATCH', 'PUT', 'DELETE'] as const) {
        assert.deepEqual(await statuses(method), [404, 403, 409], method)
      }
    })

    it('409 for a deletion that would delete a locked row or clear its reference; nothing is deleted', async () => {
      const [owner, payer] = [await customer(), await customer()]
      const free = await create('/invoices', { customerId: owner, status: 'draft' })
      const paid = await create('/invoices', { customerId: owner, payerId: payer, status: 'paid' })
      for (const id of [owner, payer]) {
        const answer = await send({ method: 'DELETE', url: `/customers/${id}` })
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [409, 'RESOURCE_LOCKED'], answer.body)
        assert.deepEqual(answer.json().errors, [{ field: 'id', message: 'is referred to by locked invoices' }])
      }
      assert.equal((await stored(free)).status, 'draft')
      assert.equal((await stored(paid)).payerId, payer)
      const other = await customer()
      const url = await create('/invoices', { customerId: other, status: 'draft' })
      assert.equal((await send({ method: 'DELETE', url: `/customers/${other}` })).statusCode, 204)
      assert.equal((await send({ url })).statusCode, 404)
    })

    it('200 for only one of many concurrent changes that lock the row, 409 for the others', async () => {
      const url = await create('/invoices', { customerId: await customer(), status: 'draft' })
      const paid = Array.from({ length: 8 }, () => send({ method: 'PATCH', url, payload: { status: 'paid' } }))
      const codes = (await Promise.all(paid)).map(({ statusCode }) => statusCode)
      assert.deepEqual(codes.toSorted(), [200, ...Array(7).fill(409)])
      assert.equal((await send({ method: 'GET', url })).headers.etag, '"2"')
    })

    it('409 RESOURCE_LOCKED while a related row meets the lock condition, also for rows that refer to a locked row', async () => {
      const period = (isClosed: boolean, year: number) => create('/periods', { isClosed, year })
      const idOf = (url: string) => Number(url.split('/')[2])
      const [open, closed, old] = [await period(false, 2026), await period(true, 2026), await period(true, 2019)]
      const entry = (periodId: number, otherId?: number) =>
        create('/entries', { periodId, text: 'Work', ...(otherId !== undefined && { otherId }) })
      const free = await entry(idOf(open), idOf(closed))
      const remark = await create('/remarks', { entryId: idOf(free), text: 'Hm' })
      const locked = [await entry(idOf(closed)), await entry(idOf(open), idOf(old))]
      for (const url of locked) {
        const before = await stored(url)
        for (const [method, payload] of [
          ['PUT', { periodId: idOf(open), text: 'Other' }],
          ['PATCH', { text: 'Other' }],
          ['DELETE', undefined],
        ] as const) {
          assert.deepEqual(await codeOf({ method, url, ...(payload && { payload }) }), [409, 'RESOURCE_LOCKED'], method)
        }
        assert.deepEqual(await stored(url), before)
      }
      const change = { method: 'PATCH', url: free, payload: { text: 'More' } } as const
      assert.deepEqual((await codeOf(change))[0], 200)
      assert.equal((await send({ method: 'PATCH', url: open, payload: { isClosed: true } })).statusCode, 200)
      assert.deepEqual(await codeOf(change), [409, 'RESOURCE_LOCKED'])
      assert.deepEqual(await codeOf({ method: 'DELETE', url: remark }), [409, 'RESOURCE_LOCKED'])
      assert.deepEqual(
        await codeOf({ method: 'POST', url: '/remarks', payload: { entryId: idOf(free), text: 'No' } }),
        [409, 'RESOURCE_LOCKED'],
      )
      const removal = await send({ method: 'DELETE', url: old })
      assert.deepEqual(removal.json().errors, [{ field: 'id', message: 'is referred to by locked entries' }])
      assert.equal((await send({ method: 'PATCH', url: open, payload: { isClosed: false } })).statusCode, 200)
      assert.deepEqual((await codeOf(change))[0], 200)
      assert.equal((await send({ method: 'DELETE', url: open })).statusCode, 409)
    })

    it('200 or 409 for changes concurrent with a change that locks the rows; only those with 200 are stored', async () => {
      const period = await create('/periods', { isClosed: false, year: 2026 })
      const periodId = Number(period.split('/')[2])
      const urls = await Promise.all(Array.from({ length: 4 }, () => create('/entries', { periodId, text: 'Work' })))
      const answers = await Promise.all([
        ...urls.map((url) => send({ method: 'PATCH', url, payload: { text: 'More' } })),
        send({ method: 'PATCH', url: period, payload: { isClosed: true } }),
        ...urls.map((url) => send({ method: 'PATCH', url, payload: { text: 'Most' } })),
      ])
      assert.equal(answers[4]?.statusCode, 200)
      for (const [at, url] of urls.entries()) {
        const codes = [answers[at]?.statusCode, answers[at + 5]?.statusCode]
        const revisions = 1 + codes.filter((code) => code === 200).length
        assert.ok(
          codes.every((code) => code === 200 || code === 409),
          codes.join(),
        )
        assert.equal((await send({ url })).headers.etag, `"${revisions}"`)
        assert.deepEqual(await codeOf({ method: 'DELETE', url }), [409, 'RESOURCE_LOCKED'])
      }
    })

    it('depend on the current day in the service’s time zone if the lock condition uses `today`', async () => {
      // 2026-03-01T12:00Z is 02:00 on the next day in Kiritimati.
      const [ended, running] = [
        await create('/plans', { until: '2026-03-01' }),
        await create('/plans', { until: '2026-03-02' }),
      ]
      assert.deepEqual(await codeOf({ method: 'DELETE', url: ended }), [409, 'RESOURCE_LOCKED'])
      assert.deepEqual(await codeOf({ method: 'DELETE', url: running }), [204, ''])
    })

    it('RESOURCE_LOCKED is documented in OpenAPI only for writes that can encounter a locked row', async () => {
      const { paths } = (await send({ url: '/openapi.json' })).json()
      const has = (path: string, method: string) =>
        /RESOURCE_LOCKED|resource-locked/.test(JSON.stringify(paths[path][method]))
      assert.deepEqual(
        ['put', 'patch', 'delete'].map((method) => has('/invoices/{id}', method)),
        [true, true, true],
      )
      assert.deepEqual([has('/customers/{id}', 'delete'), has('/customers/{id}', 'put')], [true, false])
      assert.deepEqual([has('/invoices', 'post'), has('/invoices/{id}', 'get')], [false, false])
    })
  })
})

describe('a definition with locked rows or a time zone', () => {
  const declare = (locked: unknown) => () =>
    collection({
      path: '/notes',
      noun: 'note',
      body: Type.Object({ title: Title, state: Type.Enum(['open', 'done']) }),
      locked: locked as never,
    })
  for (const [locked, message] of [
    [{ status: 'done' }, /\/notes: locked: status is not a field: did you mean state\?/],
    [{ state: 'closed' }, /\/notes: locked: state must be one of open, done, not "closed"/],
    [{ createdBy: 'user:7' }, /\/notes: locked: createdBy is not a field/],
    [{}, /\/notes: locked: it names no field, so it would match every row/],
    ['done', /\/notes: locked: it must be an object with the names of fields/],
  ] as const) {
    it(`is refused: ${JSON.stringify(locked)}`, () => assert.throws(declare(locked), message))
  }

  it('is refused if the lock condition follows two relations or names an unknown field of the related row', () => {
    const declareAlong = (locked: unknown) => () =>
      collection({
        path: '/notes',
        noun: 'note',
        body: Type.Object({ invoiceId: Ref(invoices), title: Title }),
        locked: locked as never,
      })
    const message = /\/notes: locked: invoice\.(customer|state) is not a field: (use|did you mean)/
    assert.throws(declareAlong({ invoice: { customer: { name: 'Ada' } } }), message)
    assert.throws(declareAlong({ invoice: { state: 'paid' } }), message)
    assert.throws(declareAlong({ invoice: {} }), /invoice names no field, so it would match every row/)
  })

  it('is refused if the time zone is unknown', () => {
    const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ title: Title }) })
    assert.throws(
      () => define({ resources: [notes], zone: 'Mars' }),
      /zone must be the name of a time zone .* not 'Mars'/,
    )
  })
})

/** Never called: TypeScript checks this code and reports every unused `@ts-expect-error`. */
export function typed() {
  const declared = { path: '/notes', noun: 'note', body: Type.Object({ planId: Ref(plans), title: Title }) } as const
  collection({ ...declared, locked: { any: [{ title: 'done' }, { plan: { until: { before: 'today' } } }] } })
  // @ts-expect-error a lock names an unknown field of the related row
  collection({ ...declared, locked: { plan: { ends: { before: 'today' } } } })
  // @ts-expect-error a lock names an unknown relation
  collection({ ...declared, locked: { plans: { until: { before: 'today' } } } })
  // @ts-expect-error the condition of a computed field names a relation
  collection({ ...declared, computed: { late: { when: { plan: { until: { before: 'today' } } } } } })
}
