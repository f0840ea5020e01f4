import type { Static, TObject, TSchema } from 'typebox'
import type { Condition, FieldsOf } from '../conditions/condition.ts'
import type { ConditionFields } from '../conditions/fields.ts'

/** A computed field: whether the row meets a condition, or a sum or count of the rows that refer to it. */
export type ComputedOption<B extends TObject> =
  | { when: Condition<FieldsOf<B> & { createdBy: string }> }
  | {
      /** A relation and a field of its rows: `lines.amount`. Integers, decimals and money can be summed. */
      sum: `${string}.${string}`
      /** `Decimal(precision, scale)` or `Money(currency)` with the scale of the summed field, or `Type.Integer()`. */
      as: TSchema
    }
  | {
      /** A relation: `lines`. */
      count: string
    }

/** The computed fields of a resource, with their names. */
export type ComputedOptions<B extends TObject, Names extends string> = {
  readonly [Name in Names]: ComputedOption<B>
}

/** A row as the functions of `derived` see it: its fields, and those that are computed. */
export type DerivedRow<B extends TObject, Names extends string> = FieldsOf<B> & {
  readonly [Name in Names]: string | number | boolean
}

/** The schemas of derived fields by name. */
export type DerivedSchemas = Readonly<Record<string, TSchema>>

/** Fields that a pure function of the row makes, for responses and events alone. */
export type DerivedOptions<B extends TObject, Names extends string, D extends DerivedSchemas> = {
  readonly [Name in keyof D]: {
    /** The schema of the values. */
    body: D[Name]
    /** `clock` returns the time. A function that takes it is called for each response. */
    from: (row: DerivedRow<B, Names>, clock: () => Date) => Static<D[Name]> | undefined
  }
}

/** A condition whose truth is a field. */
export interface DeclaredWhen {
  condition: unknown
  fields: ConditionFields
}

/** A sum or count that the table stores. */
export interface DeclaredTotal {
  name: string
  /** The relation whose rows are summed or counted. */
  relation: string
  /** The summed field; null for a count. */
  field: string | null
  schema: TSchema
  kind: 'decimal' | 'integer'
}

export interface DeclaredDerived {
  from: (row: object, clock: () => Date) => unknown
  usesClock: boolean
}

/** The computed and derived fields of a declaration. */
export interface DeclaredComputed {
  whens: Readonly<Record<string, DeclaredWhen>>
  totals: readonly DeclaredTotal[]
  derived: Readonly<Record<string, DeclaredDerived>>
  /** The totals of a new row. */
  initial: Readonly<Record<string, unknown>>
  /** True if a condition compares with `'today'`, so that the day is part of the validators. */
  usesToday: boolean
}
