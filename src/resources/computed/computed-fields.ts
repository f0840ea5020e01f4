// The computed and derived fields of a valid declaration: their schemas, column types and conditions.

import { type TObject, type TSchema, Type } from 'typebox'
import { decimalFormOf } from '../../http/decimal.ts'
import { decimalCodec } from '../../storage/rows/column-codec.ts'
import { amended } from '../column-types.ts'
import { type ConditionDeclaration, type ConditionFields, conditionFields } from '../conditions/fields.ts'
import { readCondition } from '../conditions/read-condition.ts'
import { described } from '../constraints/described.ts'
import { createdByField } from '../constraints/locked.ts'
import type { DeclaredComputed, DeclaredTotal, Shown } from './options.ts'

/** The options that declare computed and derived fields, untyped. */
export interface ComputedDeclaration {
  computed?: Readonly<Record<string, { when?: unknown; sum?: string; count?: string; as?: TSchema }>>
  derived?: Readonly<Record<string, { body: TSchema; from: (row: never, clock: () => Date) => unknown }>>
}

/** Returns the sums and counts in a valid declaration. */
const totalsOf = ({ computed = {} }: ComputedDeclaration): DeclaredTotal[] =>
  Object.entries(computed).flatMap(([name, { sum, count, as }]): DeclaredTotal[] => {
    if (count !== undefined) {
      const schema = described(Type.Integer({ minimum: 0, examples: [0] }), `the number of its ${count}`, readOnly)
      return [{ name, relation: count, field: null, schema, kind: 'integer' }]
    }
    if (sum === undefined || as === undefined) return []
    const [relation = '', field = ''] = sum.split('.')
    const kind = decimalFormOf(as) ? 'decimal' : 'integer'
    return [{ name, relation, field, schema: described(as, `the sum of ${sum}`, readOnly), kind }]
  })

const readOnly = { readOnly: true }

/**
 * Returns the schema of representations, and the column types of all its fields except derived ones. Returns both
 * unchanged if there are no computed or derived fields.
 */
export function shownOf(body: TObject, kinds: Shown['shownKinds'], declared: ComputedDeclaration): Shown {
  const { computed = {}, derived = {} } = declared
  const names = Object.keys(computed)
  if (names.length + Object.keys(derived).length === 0) return { shownBody: body, shownKinds: kinds }
  const totals = new Map(totalsOf(declared).map((total) => [total.name, total]))
  const schemas = names.map((name) => [name, totals.get(name)?.schema ?? whenSchema(computed[name]?.when)])
  const made = Object.entries(derived).map(([name, { body }]) => [
    name,
    Type.Optional(described(body, 'made from other fields', readOnly)),
  ])
  const properties = { ...body.properties, ...Object.fromEntries([...schemas, ...made]) }
  return {
    shownBody: amended(body, { properties, required: [...(body.required ?? []), ...names] }),
    shownKinds: {
      ...kinds,
      ...Object.fromEntries(names.map((name) => [name, totals.get(name)?.kind ?? ('boolean' as const)])),
    },
  }
}

const whenSchema = (condition: unknown) =>
  Type.Boolean({ description: `True when ${JSON.stringify(condition)}`, readOnly: true, examples: [false] })

/** Returns the fields that a resource's conditions can name. */
export const ownConditionFields = (declaration: ConditionDeclaration, hasAccess: boolean): ConditionFields => ({
  ...conditionFields(declaration, 'letters'),
  ...(hasAccess && { createdBy: createdByField }),
})

/** Returns the computed and derived fields in a valid declaration. */
export function computedOf(declared: ComputedDeclaration, fields: ConditionFields): DeclaredComputed {
  const totals = totalsOf(declared)
  const conditions = Object.entries(declared.computed ?? {}).filter(([, option]) => 'when' in option)
  let usesToday = false
  const today = () => {
    usesToday = true
    return '2000-01-01'
  }
  for (const [, { when }] of conditions) readCondition(when, { fields, today })
  return {
    totals,
    whens: Object.fromEntries(conditions.map(([name, { when }]) => [name, { condition: when, fields }])),
    derived: Object.fromEntries(
      Object.entries(declared.derived ?? {}).map(([name, { from }]) => [
        name,
        { from: from as (row: object) => unknown, usesClock: from.length > 1 },
      ]),
    ),
    initial: Object.fromEntries(totals.map(({ name, schema }) => [name, totalValue(schema, 0n)])),
    usesToday,
  }
}

/** Converts a total from the integer in its column to the value in representations. */
export function totalValue(schema: TSchema, stored: bigint): unknown {
  const form = decimalFormOf(schema)
  return form ? decimalCodec(form.scale).decode(stored) : Number(stored)
}
