import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { type TObject, type TSchema, Type } from 'typebox'
import { loadDefinition } from '../../src/cli/load-definition.ts'
import { service as define } from '../../src/definition/service.ts'
import { collection } from '../../src/resources/collection.ts'
import { Decimal, Money } from '../../src/resources/decimal-fields.ts'
import { Title } from '../../src/resources/field-types.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { successiveAppsOn, type TestApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const linesOf = (body: TObject, more: object = {}) => collection({ path: '/lines', noun: 'line', body, ...more })

describe('the declaration of a decimal', () => {
  const refused: [what: string, amount: TSchema, more: object, message: RegExp][] = [
    [
      'a precision beyond 18',
      Decimal(19, 2),
      {},
      /^\/lines: the precision of amount must be an integer from 1 to 18, not 19$/,
    ],
    ['a precision of 0', Decimal(0, 0), {}, /the precision of amount must be an integer from 1 to 18, not 0$/],
    ['a precision with a fraction', Decimal(1.5, 0), {}, /the precision of amount/],
    [
      'a scale beyond the precision',
      Decimal(3, 4),
      {},
      /the scale of amount must be an integer from 0 to its precision 3, not 4$/,
    ],
    ['a negative scale', Decimal(3, -1), {}, /the scale of amount/],
    [
      'a minimum with too many decimal places',
      Decimal(4, 2, { minimum: '0.001' }),
      {},
      /the minimum of amount must have at most 2 digits after/,
    ],
    [
      'a maximum that is not a decimal',
      Decimal(4, 2, { maximum: 'x' }),
      {},
      /the maximum of amount must be a decimal number/,
    ],
    [
      'bounds in the wrong order',
      Decimal(4, 2, { minimum: '2', maximum: '1.5' }),
      {},
      /the minimum of amount is greater than its maximum$/,
    ],
    [
      'a default with too many decimal places',
      Decimal(4, 2, { default: '0.001' }),
      {},
      /the default of amount is not valid for its type$/,
    ],
    [
      'a default beyond a bound',
      Decimal(4, 2, { default: '3', maximum: '2' }),
      {},
      /the default of amount is not valid/,
    ],
    [
      'a currency that is not an ISO 4217 code',
      Money('EURO'),
      {},
      /the currency of amount must be an ISO 4217 code such as EUR, not EURO$/,
    ],
    [
      'a nested decimal with an invalid precision',
      Type.Array(Type.Object({ cost: Decimal(20, 2) })),
      {},
      /the precision of amount\[\]\.cost must be/,
    ],
    [
      'a choice between a decimal and something else',
      Type.Object({ cost: Type.Union([Decimal(4, 2), Type.Null()]) }),
      {},
      /the decimal amount\.cost must be a field, a property or the items of an array, not a choice$/,
    ],
    [
      'search in a decimal',
      Decimal(4, 2),
      { search: ['amount'] },
      /search cannot include amount: it is not free text$/,
    ],
    [
      'a default of an object whose decimal is not in its scale',
      Type.Object({ cost: Decimal(4, 2) }, { default: { cost: '1' } }),
      {},
      /the default of amount is not valid/,
    ],
  ]
  for (const [what, amount, more, message] of refused) {
    it(`throws for ${what}`, () => {
      assert.throws(() => linesOf(Type.Object({ amount }), more), { name: 'DefinitionError', message })
    })
  }

  it('reports only one error for each invalid decimal', () => {
    const body = Type.Object({
      amount: Decimal(1, 0, { minimum: 'x', maximum: '0' }),
      parts: Type.Array(Type.Union([Decimal(1, 1)])),
    })
    assert.throws(
      () => linesOf(body),
      ({ message }: Error) => {
        assert.deepEqual(
          message.split('\n').map((line) => line.split(' must ')[0]),
          ['/lines: the minimum of amount', '/lines: the decimal parts[]'],
        )
        return true
      },
    )
  })

  it('throws for sorting by an optional decimal', () => {
    const body = Type.Object({ amount: Type.Optional(Decimal(4, 2)) })
    assert.throws(() => linesOf(body, { sorts: ['amount'] }), /sorts cannot include amount: it is optional/)
  })

  it('accepts precision 1 to 18 with any scale, in `filters`, `ranges`, `sorts` and `unique`', () => {
    for (const precision of [1, 2, 17, 18]) {
      for (const scale of [0, 1, precision]) {
        const lists = ['filters', 'ranges', 'sorts', 'unique'].map((list) => [list, ['amount']])
        linesOf(Type.Object({ amount: Decimal(precision, scale) }), Object.fromEntries(lists))
      }
    }
  })

  it('uses the number of decimal places of each currency', () => {
    const placesOf = (schema: TSchema) =>
      String((schema as { examples?: string[] }).examples?.[0]).split('.')[1]?.length ?? 0
    const currencies = ['EUR', 'JPY', 'KWD', 'CLF', 'XOF', 'HUF', 'ISK'] as const
    assert.deepEqual(
      currencies.map((currency) => placesOf(Money(currency))),
      [2, 0, 3, 4, 0, 2, 0],
    )
  })

  it('creates bigint columns with the declared scales for the example in docs/resources.md', async (t) => {
    const page = readFileSync(new URL('../../docs/resources.md', import.meta.url), 'utf8')
    const block = [...page.matchAll(/```ts\n([^`]+)```/g)]
      .map(([, code]) => code)
      .find((code) => code?.includes('Money('))
    const folder = mkdtempSync(join(tmpdir(), 'plinth-decimal-'))
    t.after(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'service.ts')
    const library = new URL('../../bin/import.js', import.meta.url).href
    writeFileSync(file, String(block).replace("'plinth'", `'${library}'`))
    const definition = await loadDefinition(file)
    const [table] = definition.tables
    assert.deepEqual(
      table?.columns.filter(({ sql }) => sql === 'bigint').map(({ name, kind }) => `${name}: ${kind}`),
      [
        'price: decimal with scale 2',
        'quantity: decimal with scale 3',
        'discount: decimal with scale 4',
        'amount: decimal with scale 2',
      ],
    )
  })

  it('is type-checked', () => {
    // Never called: TypeScript checks this code (`npm run types`).
    const mistakes = () => {
      // @ts-expect-error the scale is missing
      Decimal(12)
      // @ts-expect-error the precision must be a number
      Decimal('12', 2)
      // @ts-expect-error the default must be a string, because a number may already be rounded
      Decimal(12, 2, { default: 0.1 })
      // @ts-expect-error an unknown option
      Decimal(12, 2, { min: '0' })
      // @ts-expect-error currency codes must be upper case
      Money('eur')
      // @ts-expect-error bounds must be text
      Money('EUR', { minimum: 0 })
      const body = Type.Object({ amount: Decimal(12, 2), price: Type.Optional(Money('EUR')) })
      // @ts-expect-error an unknown field
      collection({ path: '/lines', noun: 'line', body, filters: ['amonut'] })
      const value: Type.Static<typeof body> = { amount: '1.00' }
      // @ts-expect-error decimals are text
      value.amount = 1
    }
    assert.equal(typeof mistakes, 'function')
  })
})

forEachEngine((engine) => {
  describe('a decimal in a later definition', () => {
    const { state, start: startApp } = successiveAppsOn(engine)
    const url = '/lines'

    /** Starts an app for a definition, after migrating its tables. */
    const start = async (fields: Record<string, TSchema>, more: object = {}) => {
      const definition = define({ resources: [linesOf(Type.Object({ text: Title, ...fields }), more)] })
      const { done, service } = await startApp(definition)
      const send: TestApp['send'] = (request) => service.send({ scopes: 'lines:read lines:write', ...request })
      return { done, definition, send }
    }

    it('stores the exact default of a new field in existing rows', async () => {
      const old = await start({})
      for (const text of ['A', 'B']) await old.send({ method: 'POST', url, payload: { text } })
      const amount = Decimal(18, 4, { default: '-12345678901234.5678' })
      const { done, send, definition } = await start({ amount }, { filters: ['amount'], ranges: ['amount'] })
      assert.ok(done.includes('-- fill resource_lines.amount with its default in 2 rows'), done.join('\n'))
      const { headers, ...read } = await send({ url: `${url}/1` })
      assert.deepEqual([read.json().amount, headers.etag], ['-12345678901234.5678', '"2"'])
      assert.equal((await send({ url: `${url}?amount=-12345678901234.5678&maxAmount=0` })).json().length, 2)
      assert.equal((await send({ method: 'POST', url, payload: { text: 'C' } })).json().amount, '-12345678901234.5678')
      assert.deepEqual(await migrate(state.db, { tables: definition.tables }), [])
    })

    it('accepts a greater precision without changing stored values', async () => {
      const old = await start({ amount: Decimal(5, 2) })
      await old.send({ method: 'POST', url, payload: { text: 'A', amount: '999.99' } })
      const { send, done } = await start({ amount: Decimal(18, 2) })
      assert.deepEqual(done, [])
      assert.equal((await send({ url: `${url}/1` })).json().amount, '999.99')
    })

    it('rejects a change of the scale, and a change from a number or an integer to a decimal', async () => {
      await start({ amount: Decimal(5, 2), weight: Type.Number(), count: Type.Integer() })
      const changed = { amount: Decimal(5, 3), weight: Decimal(5, 2), count: Decimal(5, 0) }
      await assert.rejects(start(changed), ({ message }: Error) => {
        assert.match(
          message,
          /the field amount is declared as decimal with scale 3, but stored as decimal with scale 2/,
        )
        assert.match(message, /the field weight is declared as decimal with scale 2, but stored as number/)
        assert.match(message, /the field count is declared as decimal with scale 0, but stored as integer/)
        assert.match(message, /rename column "amount" to "amount_old"/)
        return true
      })
    })
  })
})
