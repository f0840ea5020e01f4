import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import type { ResourceOptions } from '../../../src/resources/resource-options.ts'

const customers = collection({ path: '/customers', noun: 'customer', body: Type.Object({ name: Line(1, 40) }) })
const body = Type.Object({
  reference: Line(1, 20),
  code: Line(1, 20),
  price: Decimal(12, 2),
  customerId: Ref(customers),
  currency: Type.Enum(['EUR', 'USD']),
  state: Type.Enum(['open', 'done'], { default: 'open' }),
})
const declared = { path: '/invoices', noun: 'invoice', body, unique: ['code'] } as const

/** Never called: TypeScript checks this code (`npm run types`) and reports every unused `@ts-expect-error`. */
export function typed() {
  collection({
    ...declared,
    migrate: {
      renamed: { reference: 'number' },
      fill: { currency: 'EUR', code: (row) => `C${row.id}` },
      convert: { price: (old: number) => old.toFixed(2) },
    },
  })
  // @ts-expect-error a renamed field is unknown
  collection({ ...declared, migrate: { renamed: { referenz: 'number' } } })
  // @ts-expect-error an earlier name must be a name
  collection({ ...declared, migrate: { renamed: { reference: 7 } } })
  // @ts-expect-error a filled field is unknown
  collection({ ...declared, migrate: { fill: { curency: 'EUR' } } })
  // @ts-expect-error the constant is not one of the choices
  collection({ ...declared, migrate: { fill: { currency: 'GBP' } } })
  // @ts-expect-error a function returns another type
  collection({ ...declared, migrate: { fill: { code: (row) => row.id } } })
  // @ts-expect-error a function is asynchronous
  collection({ ...declared, migrate: { fill: { code: async () => 'C' } } })
  // @ts-expect-error a converted field is unknown
  collection({ ...declared, migrate: { convert: { prise: (old: number) => old.toFixed(2) } } })
  // @ts-expect-error a converted value has another type
  collection({ ...declared, migrate: { convert: { price: (old: number) => old * 100 } } })
  // @ts-expect-error the option has no such part
  collection({ ...declared, migrate: { dropped: { reference: true } } })
}

const refused: [name: string, migrate: unknown, message: string][] = [
  [
    'a value that is not an object',
    'renamed',
    'migrate must be an object such as { renamed: {}, fill: {}, convert: {} }, each with fields of body',
  ],
  [
    'a list of renamed fields',
    { renamed: ['reference'] },
    'migrate must be an object such as { renamed: {}, fill: {}, convert: {} }, each with fields of body',
  ],
  ['an unknown part', { dropped: {} }, 'migrate has no dropped: use renamed, fill, convert'],
  [
    'an unknown field',
    { renamed: { referense: 'number' } },
    "migrate: renamed names 'referense', but body has no such field; did you mean reference?",
  ],
  [
    'an earlier name that is not a field name',
    { renamed: { reference: 'a b' } },
    "migrate: renamed.reference must be the earlier name of the field, such as 'number'",
  ],
  [
    'the name of another field as the earlier name',
    { renamed: { reference: 'currency' } },
    "migrate: renamed.reference is 'currency', which is still a field of body",
  ],
  [
    'one earlier name twice',
    { renamed: { reference: 'number', code: 'number' } },
    "migrate: renamed gives 'number' to two fields",
  ],
  [
    'an invalid constant',
    { fill: { currency: 'GBP' } },
    'migrate: the value of fill.currency is not valid for its type',
  ],
  [
    'a constant in a unique field',
    { fill: { code: 'C' } },
    'migrate: fill.code must be a function: the field is unique',
  ],
  [
    'a constant for a reference',
    { fill: { customerId: 1 } },
    'migrate: fill.customerId must be a function: the field is a reference',
  ],
  [
    'a value for a field with a default',
    { fill: { state: 'done' } },
    'migrate: fill cannot include state: existing rows get the default of its schema',
  ],
  ['an async function', { fill: { code: async () => 'C' } }, 'migrate: the function of fill.code must not be async'],
  [
    'a conversion that is not a function',
    { convert: { price: '1.00' } },
    'migrate: convert.price must be a function, such as (old) => String(old)',
  ],
  [
    'the conversion of a reference',
    { convert: { customerId: Number } },
    'migrate: convert cannot include customerId: convert it to an integer, and declare the reference in the next release',
  ],
  [
    'a field that is renamed and converted',
    { renamed: { price: 'amount' }, convert: { price: String } },
    'migrate: price is renamed and converted: rename it in one release, and convert it in the next, when every process has the new name',
  ],
  [
    'a field that is renamed and filled',
    { renamed: { currency: 'money' }, fill: { currency: 'EUR' } },
    'migrate: fill cannot include currency: its rows have values, which renamed or convert keeps',
  ],
]

describe('the `migrate` option', () => {
  for (const [name, migrate, message] of refused) {
    it(`refuses ${name}`, () => {
      assert.throws(() => collection({ ...declared, migrate: migrate as NonNullable<ResourceOptions['migrate']> }), {
        name: 'DefinitionError',
        message: `/invoices: ${message}`,
      })
    })
  }
})
