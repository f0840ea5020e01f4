import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { Type } from 'typebox'
import { service as define } from '../../../src/definition/service.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { nextNumber } from '../../../src/resources/constraints/counted.ts'
import type { CreationContext } from '../../../src/resources/constraints/creation.ts'
import { Title } from '../../../src/resources/field-types.ts'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

/** Returns the reference of a new row. A test can replace the function for one request. */
const made = { reference: (_: CreationContext): Promise<string> | string => '' }
const usual = async ({ next }: CreationContext) => `R-${await next('invoices')}`

const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({ reference: Line(1, 20), title: Title, code: Type.Optional(Line(1, 9)), at: Type.Integer() }),
  defaults: { reference: async (context) => made.reference(context) },
  set: { at: async ({ next }) => next('places') },
  unique: ['code'],
  rules: [{ field: 'title', message: 'must not be bad', holds: ({ title }) => title !== 'bad' }],
})
const sync = collection({
  path: '/tickets',
  noun: 'ticket',
  body: Type.Object({ title: Title, number: Type.Integer() }),
  set: { number: ({ next }) => next('tickets') },
})
const definition = define({ resources: [invoices, sync] })
const scopes = 'invoices:read invoices:write tickets:write'

forEachEngine((engine) => {
  describe('numbers that next() assigns to new rows', () => {
    const service = appOn(engine, { prefixes: [''], definition })
    const post = (payload: object, key?: string, url = '/invoices') =>
      service.send({ scopes, method: 'POST', url, payload, headers: key ? { 'idempotency-key': key } : {} })
    const numbersOf = (answers: Awaited<ReturnType<TestApp['send']>>[]) =>
      answers.map((answer) => Number(answer.json().reference.slice(2))).toSorted((left, right) => left - right)
    const count = async () =>
      Number(
        (await service.send({ scopes, url: '/invoices?limit=1', headers: { prefer: 'count=exact' } })).headers[
          'x-total-count'
        ],
      )
    const following = async () => {
      const answer = await post({ title: 'A' })
      assert.equal(answer.statusCode, 201, answer.body)
      return Number(answer.json().reference.slice(2))
    }
    made.reference = usual

    it('201 with consecutive numbers for concurrent creations, even if some creations are refused', async () => {
      assert.equal((await post({ title: 'A', code: 'taken' })).json().reference, 'R-1')
      const bodies = Array.from({ length: 24 }, (_, at) => {
        if (at % 4 === 1) return { title: 'A', code: 'taken' }
        return { title: at % 4 === 2 ? 'bad' : 'A' }
      })
      const answers = await Promise.all(bodies.map((body) => post(body)))
      const created = answers.filter(({ statusCode }) => statusCode === 201)
      assert.deepEqual([...new Set(answers.map(({ statusCode }) => statusCode))].toSorted(), [201, 409, 422])
      assert.deepEqual(
        numbersOf(created),
        Array.from({ length: 12 }, (_, at) => at + 2),
      )
      assert.deepEqual(new Set(created.map((answer) => answer.json().at)).size, 12)
    })

    it('are not used up by a request that repeats an Idempotency-Key', async () => {
      const before = await following()
      const answers = [await post({ title: 'B' }, 'same'), await post({ title: 'B' }, 'same')]
      assert.deepEqual(
        answers.map(({ statusCode, headers }) => [statusCode, headers['idempotent-replayed']]),
        [
          [201, undefined],
          [201, 'true'],
        ],
      )
      assert.deepEqual(numbersOf(answers), [before + 1, before + 1])
      assert.equal(await following(), before + 2)
    })

    it('are not used up if the body contains a value for the field', async () => {
      const before = await following()
      assert.equal((await post({ title: 'A', reference: 'Own' })).json().reference, 'Own')
      assert.equal(await following(), before + 1)
    })

    for (const [what, reference, cause] of [
      ['awaits something other than next()', () => setTimeout(20, 'late'), /awaits something other than next\(\)/],
      ['returns an invalid value', async ({ next }) => `${'x'.repeat(20)}${await next('invoices')}`, /invalid value/],
      ['throws', async ({ next }) => Promise.reject(new Error(`no ${await next('invoices')}`)), /^no \d+$/],
      [
        'calls next() with an empty name',
        async ({ next }) => `R-${await next('')}`,
        /next\(\) needs the name of a counter/,
      ],
    ] satisfies [string, typeof made.reference, RegExp][]) {
      it(`500 for a function that ${what}; nothing is stored, and the next row gets the next number`, async () => {
        const before = await following()
        const rows = await count()
        made.reference = reference
        const answer = await post({ title: 'A' })
        made.reference = usual
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [500, 'INTERNAL_ERROR'])
        assert.equal(await count(), rows)
        const [fault] = service.faults.splice(0) as Error[]
        assert.match(`${fault?.message}`, /^\/invoices: (defaults\.reference|set or defaults) /)
        assert.match(String((fault?.cause as Error | undefined)?.message ?? fault?.message), cause)
        assert.equal(await following(), before + 1)
      })
    }

    if (engine.name === 'postgres') {
      it('503 if another transaction locks the counter for longer than the lock timeout', async () => {
        const [held, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
        const holding = service.db.write(async (tx) => {
          await nextNumber(tx, 'invoices')
          held.resolve()
          await released.promise
        })
        await held.promise
        const answer = await post({ title: 'A' }).finally(released.resolve)
        await holding
        assert.deepEqual([answer.statusCode, answer.headers['retry-after'] !== undefined], [503, true], answer.body)
        assert.deepEqual(
          service.faults.splice(0).map((fault) => (fault as { code?: string }).code),
          ['55P03'],
        )
      })
    }

    it('500 for a function that calls next() without being async', async () => {
      const answer = await post({ title: 'A' }, undefined, '/tickets')
      assert.equal(answer.statusCode, 500)
      const [fault] = service.faults.splice(0) as Error[]
      assert.match(String((fault?.cause as Error | undefined)?.message), /next\(\) needs an async function/)
    })
  })
})

it('a definition is refused if a `defaults` function is async but does not use next()', () => {
  const declare = () =>
    collection({
      path: '/notes',
      noun: 'note',
      body: Type.Object({ title: Title }),
      defaults: { title: async () => 'A' },
    })
  assert.throws(declare, /defaults: the function of title must not be async: it may only await next\(\)/)
})
