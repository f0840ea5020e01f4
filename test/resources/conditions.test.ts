import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { collection } from '../../src/resources/collection.ts'
import {
  type Condition,
  ConditionError,
  type FieldsOf,
  maxCondition,
} from '../../src/resources/conditions/condition.ts'
import { checkCondition, conditionSql, matchesCondition } from '../../src/resources/conditions/conditions.ts'
import { conditionFields } from '../../src/resources/conditions/fields.ts'
import { Decimal } from '../../src/resources/decimal-fields.ts'
import { Day, Instant, Price, Title } from '../../src/resources/field-types.ts'

const body = Type.Object({
  title: Title,
  status: Type.Enum(['draft', 'sent']),
  level: Type.Integer(),
  price: Type.Optional(Price),
  fee: Type.Optional(Decimal(6, 2)),
  isOpen: Type.Optional(Type.Boolean()),
  due: Type.Optional(Day),
  startsAt: Type.Optional(Instant),
  tags: Type.Optional(Type.Array(Type.String())),
  any: Type.Optional(Type.Boolean()),
})
const invoices = collection({ path: '/invoices', noun: 'invoice', body, filters: ['title'] })
const fields = conditionFields(invoices.declaration, 'letters')
const today = () => '2026-03-01'
type Invoice = Condition<FieldsOf<typeof body>>

describe('a condition', () => {
  const names = 'title, status, level, price, fee, isOpen, due, startsAt, tags, any, id, createdAt, updatedAt'
  const refused: [condition: unknown, ...errors: string[]][] = [
    [undefined, 'it must be an object with the names of fields'],
    [true, 'it must be an object with the names of fields'],
    [[], 'it must be an object with the names of fields'],
    [new Date(0), 'it must be an object with the names of fields'],
    [{}, 'it names no field, so it would match every row'],
    [{ all: [] }, 'all is empty, so it would match every row'],
    [{ all: [{}] }, 'all[0] names no field, so it would match every row'],
    [{ all: { title: 'A' } }, 'all must be a list of conditions'],
    [{ any: [{ level: 1 }, 'level'] }, 'any[1] must be an object with the names of fields'],
    [{ titel: 'A' }, 'titel is not a field: did you mean title?'],
    [{ customer: 1 }, `customer is not a field: use ${names}`],
    [{ toString: 1 }, `toString is not a field: use ${names}`],
    [{ title: 1 }, 'title must be text, not 1'],
    [{ title: ['A'] }, 'title cannot equal a list; use { in: [...] }'],
    [{ title: new Date(0) }, 'title must be text, not an object'],
    [{ title: {} }, 'title names no operator; use in, not, null, prefix'],
    [{ title: { prefx: 'A' } }, "title does not support 'prefx': did you mean prefix?"],
    [{ title: { before: 'A' } }, "title does not support 'before': use in, not, null, prefix"],
    [{ title: { in: 'A' } }, 'title.in must be a list of values'],
    [{ title: { not: [] } }, 'title.not must be one value, not a list'],
    [{ level: { from: [1, 2] } }, 'level.from must be one value, not a list'],
    [{ title: { null: 1 } }, 'title.null must be true or false'],
    [{ status: 'paid' }, 'status must be one of draft, sent, not "paid"'],
    [{ status: { prefix: 'd' } }, "status does not support 'prefix': use in, not, null"],
    [{ level: 1.5 }, 'level must be an integer within ±9007199254740991, not 1.5'],
    [{ level: '1' }, 'level must be an integer within ±9007199254740991, not "1"'],
    [
      { price: { from: Number.NaN, to: '2' } },
      'price.from must be a number, not NaN',
      'price.to must be a number, not "2"',
    ],
    [{ fee: '1.005' }, 'fee must have at most 2 digits after the decimal point, not "1.005"'],
    [{ fee: { to: true } }, 'fee.to must be a decimal number, not true'],
    [{ isOpen: 1 }, 'isOpen must be true or false, not 1'],
    [{ isOpen: { from: true } }, "isOpen does not support 'from': use in, not, null"],
    [{ due: '2026-02-30' }, `due must be a day such as 2026-03-01, or 'today', not "2026-02-30"`],
    [{ startsAt: 'today' }, 'startsAt must be an instant such as 2026-11-21T00:00:00Z, not "today"'],
    [{ tags: 'a' }, 'tags cannot be compared; use { null: true } or { null: false }'],
    [
      { level: { in: [1, 'x', null, {}] } },
      'level.in[1] must be an integer within ±9007199254740991, not "x"',
      'level.in[3] must be an integer within ±9007199254740991, not an object',
    ],
  ]
  for (const [condition, ...errors] of refused) {
    it(`is refused: ${errors[0]}`, () => {
      assert.deepEqual(checkCondition(condition, fields), errors)
      assert.throws(() => conditionSql(condition, { fields, today }), ConditionError)
      assert.throws(() => matchesCondition(condition, { id: 1, title: 'A' }, { fields, today }), ConditionError)
    })
  }

  it('is refused if it nests too deeply or has too many comparisons or values', () => {
    const nested = (depth: number): object => (depth === 1 ? { level: 1 } : { any: [nested(depth - 1)] })
    const comparisons = (count: number) => ({ any: Array.from({ length: count }, () => ({ level: 1 })) })
    const values = (count: number) => ({ level: { in: Array.from({ length: count }, (_, at) => at) } })
    const cases: [make: (size: number) => object, max: number, error: string][] = [
      [nested, maxCondition.depth, 'it is nested more than 8 levels deep'],
      [comparisons, maxCondition.comparisons, 'it has more than 100 comparisons'],
      [values, maxCondition.values, 'it has more than 1000 values'],
    ]
    for (const [make, max, error] of cases) {
      assert.deepEqual(checkCondition(make(max), fields), [])
      assert.deepEqual(checkCondition(make(max + 1), fields), [error])
    }
    const endless: { any: object[] } = { any: [] }
    endless.any.push(endless)
    assert.deepEqual(checkCondition(endless, fields), ['it is nested more than 8 levels deep'])
  })

  it('matches no row if it compares with null or undefined; `in` ignores such values in its list', () => {
    const row = { id: 1, title: 'A', status: 'draft', level: 1 }
    for (const value of [null, undefined]) {
      const operators = ['in', 'not', 'null', 'from', 'to', 'before', 'after']
      const conditions = [
        { level: value },
        { price: value },
        ...operators.map((operator) => ({ level: { [operator]: value } })),
        ...operators.map((operator) => ({ price: { [operator]: value } })),
        { level: { from: 0, to: value } },
        { level: { in: [value] } },
        { title: { prefix: value } },
        { any: value },
        { all: value },
      ]
      for (const condition of conditions) {
        assert.equal(matchesCondition(condition, row, { fields, today }), false, JSON.stringify(condition))
      }
    }
    assert.equal(matchesCondition({ level: { in: [null, 1] } }, row, { fields, today }), true)
  })

  it('can compare a field named `any`; `any` with a list is the operator', () => {
    const context = { fields, today }
    assert.equal(matchesCondition({ any: true }, { id: 1, any: true }, context), true)
    assert.equal(matchesCondition({ any: [{ any: false }] }, { id: 1, any: true }, context), false)
  })

  it("reads the clock only for 'today'", () => {
    const never = () => assert.fail('the clock was read')
    assert.equal(matchesCondition({ due: '2026-03-01' }, { id: 1, due: '2026-03-01' }, { fields, today: never }), true)
    assert.equal(matchesCondition({ due: { before: 'today' } }, { id: 1, due: '2026-02-28' }, { fields, today }), true)
  })

  it('compiles only with field names, operators and values that exist', () => {
    const tenant: string | undefined = undefined
    const valid: Invoice[] = [
      { title: 'A', status: { in: ['draft', 'sent'] }, level: { from: 1, before: 5 }, due: { before: 'today' } },
      { any: [{ isOpen: true }, { all: [{ title: { prefix: 'A' } }, { price: { not: 0 } }] }] },
      { title: tenant, createdAt: { after: '2026-01-01' }, id: 7, tags: { null: false } },
    ]
    const invalid: Invoice[] = [
      // @ts-expect-error: an unknown field
      { titel: 'A' },
      // @ts-expect-error: the field is text
      { title: 1 },
      // @ts-expect-error: a value outside of the enumeration
      { status: 'paid' },
      // @ts-expect-error: a value outside of the enumeration
      { status: { in: ['draft', 'paid'] } },
      // @ts-expect-error: values of an enumeration have no order
      { status: { from: 'draft' } },
      // @ts-expect-error: an unknown operator
      { level: { min: 1 } },
      // @ts-expect-error: a number has no prefix
      { level: { prefix: '1' } },
      // @ts-expect-error: booleans have no order
      { isOpen: { from: true } },
      // @ts-expect-error: lists cannot be compared
      { tags: ['a'] },
      // @ts-expect-error: an unknown field
      { any: [{ titel: 'A' }] },
    ]
    assert.deepEqual(
      valid.flatMap((condition) => checkCondition(condition, fields)),
      [],
    )
    assert.deepEqual(
      invalid.filter((condition) => checkCondition(condition, fields).length === 0),
      [],
    )
  })
})
