import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type TObject, Type } from 'typebox'
import { service as define } from '../../../src/definition/service.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Decimal, Money } from '../../../src/resources/decimal-fields.ts'
import type { Collection } from '../../../src/resources/declaration.ts'
import { Day, Title } from '../../../src/resources/field-types.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'

const body = Type.Object({ title: Title, due: Type.Optional(Day), parentId: Type.Optional(Ref('self')) })
const parent = (more: object) => collection({ path: '/invoices', noun: 'invoice', body, ...more })
const withLines = (computed: object, more: object = {}) => {
  const invoices = parent({ computed })
  const lines = collection({
    path: '/lines',
    noun: 'line',
    body: Type.Object({
      invoiceId: Ref(invoices as Collection<TObject>),
      amount: Decimal(9, 2),
      price: Money('EUR'),
      weight: Type.Number(),
      count: Type.Integer(),
      text: Title,
      secret: Type.Integer(),
    }),
    writeOnly: ['secret'],
    ...more,
  })
  return define({ resources: [invoices, lines] })
}

describe('computed fields in a declaration', () => {
  const refused: [what: string, options: object, message: string][] = [
    [
      'an unknown option',
      { computed: { a: { total: 'lines' } } },
      'computed.a has no option total: use { when: condition }',
    ],
    [
      'a misspelt option',
      { computed: { a: { sums: 'lines.amount' } } },
      'computed.a has no option sums: did you mean sum?',
    ],
    [
      'two options at once',
      { computed: { a: { count: 'lines', when: { title: 'a' } } } },
      'computed.a must be one of { when:',
    ],
    ['a sum without a field', { computed: { a: { sum: 'lines', as: Decimal(9, 2) } } }, "such as 'lines.amount'"],
    ['a sum without its type', { computed: { a: { sum: 'lines.amount' } } }, 'computed.a: as must be Decimal'],
    [
      'a sum declared as Type.Number()',
      { computed: { a: { sum: 'lines.amount', as: Type.Number() } } },
      'computed.a: as must be Decimal',
    ],
    ['a count of a field', { computed: { a: { count: 'lines.amount' } } }, 'count must be the name of a relation'],
    [
      'a condition on an unknown field',
      { computed: { a: { when: { tilte: 'a' } } } },
      'computed.a.when: tilte is not a field: did you mean',
    ],
    [
      'a condition on a related row',
      { computed: { a: { when: { any: [{ title: 'a' }, { parent: { title: 'a' } }] } } } },
      'computed.a.when: any[1].parent is a relation, and the ETag of a row would not change with the related row',
    ],
    ['an empty condition', { computed: { a: { when: {} } } }, 'computed.a.when: it names no field'],
    [
      'a computed field with the name of a stored one',
      { computed: { title: { count: 'lines' } } },
      'the computed field title has the name of another',
    ],
    [
      'a field with a reserved name',
      { computed: { revision: { count: 'lines' } } },
      'the field name revision is reserved',
    ],
    [
      'a field with the name of a relation',
      { computed: { parent: { count: 'lines' } } },
      "is the reference of 'parent'",
    ],
    [
      'a unique computed field',
      { computed: { a: { count: 'lines' } }, unique: ['a'] },
      'unique cannot include a: it is computed',
    ],
    [
      'a sort by a computed condition',
      { computed: { a: { when: { title: 'a' } } }, sorts: ['a'] },
      'sorts cannot include a',
    ],
    [
      'a filter by a derived field',
      { derived: { a: { body: Title, from: () => 'a' } }, filters: ['a'] },
      'filters cannot include a: it is derived',
    ],
    ['a derived field without a schema', { derived: { a: { from: () => 'a' } } }, 'derived.a needs body'],
    [
      'a derived field without a function',
      { derived: { a: { body: Title } } },
      'derived.a needs from: (row, clock) => value',
    ],
    [
      'an async derived field',
      { derived: { a: { body: Title, from: async () => 'a' } } },
      'derived.a: from must not be async',
    ],
  ]
  for (const [what, options, message] of refused) {
    it(`rejects ${what}`, () =>
      assert.throws(
        () => parent(options),
        (error: Error) =>
          (error.message.includes(`/invoices: `) && error.message.includes(message)) || assert.fail(error.message),
      ))
  }

  const unresolved: [what: string, computed: object, message: string][] = [
    [
      'a count over an unknown relation',
      { a: { count: 'line' } },
      "computed.a names 'line', which is no relation to many rows: did you mean lines?",
    ],
    [
      'a count over a relation to one row',
      { a: { count: 'parent' } },
      "computed.a names 'parent', which is no relation to many rows",
    ],
    [
      'a sum of an unknown field of the related rows',
      { a: { sum: 'lines.amuont', as: Decimal(9, 2) } },
      'computed.a names lines.amuont, but /lines has no such field: did you mean amount?',
    ],
    [
      'a sum of text',
      { a: { sum: 'lines.text', as: Decimal(9, 2) } },
      'cannot sum lines.text: it is no Decimal, Money or integer',
    ],
    [
      'a sum of floating-point numbers',
      { a: { sum: 'lines.weight', as: Decimal(9, 2) } },
      'cannot sum lines.weight: the sum of floating-point numbers',
    ],
    [
      'a sum of write-only values',
      { a: { sum: 'lines.secret', as: Type.Integer() } },
      'cannot sum lines.secret: not every caller may see it',
    ],
    [
      'a sum with a scale other than that of its field',
      { a: { sum: 'lines.amount', as: Decimal(9, 3) } },
      'must have the scale of lines.amount: as Decimal(…, 2)',
    ],
    [
      'a sum in a currency other than that of its field',
      { a: { sum: 'lines.price', as: Money('USD') } },
      "must have the scale and the currency of lines.price: as Money('EUR')",
    ],
    [
      'a sum of integers as Decimal',
      { a: { sum: 'lines.count', as: Decimal(9, 0) } },
      'must be declared as Type.Integer()',
    ],
    [
      'a sum with a minimum',
      { a: { sum: 'lines.amount', as: Decimal(9, 2, { minimum: '0' }) } },
      'cannot have a minimum, a maximum or a default',
    ],
    [
      'a sum of a computed field',
      { a: { sum: 'invoices.a', as: Type.Integer() } },
      'cannot sum invoices.a, which is computed itself',
    ],
  ]
  for (const [what, computed, message] of unresolved) {
    it(`rejects ${what}`, () =>
      assert.throws(
        () => withLines(computed),
        (error: Error) => error.message.includes(message) || assert.fail(error.message),
      ))
  }

  it('accepts sums of decimals, money and integers, and a count of rows of the same collection', () => {
    const computed = {
      amount: { sum: 'lines.amount', as: Decimal(18, 2) },
      price: { sum: 'lines.price', as: Money('EUR') },
      count: { sum: 'lines.count', as: Type.Integer() },
      children: { count: 'invoices' },
    }
    assert.equal(withLines(computed).tables[0]?.columns.length, 3 + 4)
  })
})

/** Never called: TypeScript checks this code (`npm run types`) and reports every unused `@ts-expect-error`. */
export function typed() {
  const declared = { path: '/notes', noun: 'note', body } as const
  const computed = { late: { when: { due: { before: 'today' } } }, lines: { count: 'lines' } } as const
  collection({ ...declared, computed, filters: ['title', 'late', 'lines'], ranges: ['lines'], sorts: ['lines'] })
  // @ts-expect-error a filter names no computed field
  collection({ ...declared, computed, filters: ['later'] })
  // @ts-expect-error a sort names no computed field
  collection({ ...declared, computed, sorts: ['line'] })
  // @ts-expect-error a condition names an unknown field
  collection({ ...declared, computed: { late: { when: { dues: { before: 'today' } } } } })
  // @ts-expect-error a condition compares with another type
  collection({ ...declared, computed: { late: { when: { due: 7 } } } })
  // @ts-expect-error a sum has no field
  collection({ ...declared, computed: { total: { sum: 'lines', as: Decimal(9, 2) } } })
  // @ts-expect-error a sum has no type
  collection({ ...declared, computed: { total: { sum: 'lines.amount' } } })
  // @ts-expect-error an unknown form
  collection({ ...declared, computed: { total: { average: 'lines.amount' } } })
  const derived = { label: { body: Title, from: () => 'A' } }
  collection({ ...declared, derived, listed: ['title', 'label'] })
  collection({
    ...declared,
    computed,
    derived: { label: { body: Title, from: ({ title, lines }) => `${title} ${lines}` } },
  })
  // @ts-expect-error a derived field is no filter
  collection({ ...declared, derived, filters: ['label'] })
  // @ts-expect-error a function reads an unknown field
  collection({ ...declared, derived: { label: { body: Title, from: ({ name }) => `${name}` } } })
  // @ts-expect-error a function returns another type
  collection({ ...declared, derived: { label: { body: Title, from: () => 7 } } })
  // @ts-expect-error a function is async
  collection({ ...declared, derived: { label: { body: Title, from: async () => 'A' } } })
}
