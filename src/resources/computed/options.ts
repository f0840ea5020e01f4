import type { Static, TObject, TSchema } from 'typebox'
import type { IdType } from '../../storage/ids.ts'
import type { ColumnKind } from '../column-types.ts'
import type { Condition, FieldsOf } from '../conditions/condition.ts'
import type { ConditionFields } from '../conditions/fields.ts'

/** A computed field: whether the row meets a condition, or a sum or count of the rows that refer to it. */
export type ComputedOption<B extends TObject, Ids extends IdType = 'integer'> =
  | { when: Condition<FieldsOf<B, Ids> & { createdBy: string }> }
  | {
      /** A relation and a field of the related rows: `lines.amount`. Integers, decimals and money can be summed. */
      sum: `${string}.${string}`
      /** `Decimal(precision, scale)` or `Money(currency)` with the scale of the summed field, or `Type.Integer()`. */
      as: TSchema
    }
  | {
      /** A relation: `lines`. */
      count: string
    }

/** The computed fields of a resource, by name. */
export type ComputedOptions<B extends TObject, Names extends string, Ids extends IdType = 'integer'> = {
  readonly [Name in Names]: ComputedOption<B, Ids>
}

/** A row as passed to the functions of `derived`: its stored and computed fields. */
export type DerivedRow<B extends TObject, Names extends string, Ids extends IdType = 'integer'> = FieldsOf<B, Ids> & {
  readonly [Name in Names]: string | number | boolean
}

/** The schemas of derived fields by name. */
export type DerivedSchemas = Readonly<Record<string, TSchema>>

/** Fields computed by a pure function of the row, only for responses and events. */
export type DerivedOptions<
  B extends TObject,
  Names extends string,
  D extends DerivedSchemas,
  Ids extends IdType = 'integer',
> = {
  readonly [Name in keyof D]: {
    /** The schema of the field's values. */
    body: D[Name]
    /** `clock` returns the time. A function that uses the clock is called for each response. */
    from: (row: DerivedRow<B, Names, Ids>, clock: () => Date) => Static<D[Name]> | undefined
  }
}

/** A computed field that is true if the row meets a condition. */
export interface DeclaredWhen {
  condition: unknown
  fields: ConditionFields
}

/** A sum or count, which is stored in the table. */
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

/** The computed and derived fields in a declaration. */
export interface DeclaredComputed {
  whens: Readonly<Record<string, DeclaredWhen>>
  totals: readonly DeclaredTotal[]
  derived: Readonly<Record<string, DeclaredDerived>>
  /** The initial totals of a new row. */
  initial: Readonly<Record<string, unknown>>
  /** True if a condition compares with `'today'`; ETags must then depend on the day. */
  usesToday: boolean
}

/**
 * The fields in representations. `shownBody`: the body with the computed and derived fields. `shownKinds`: the column
 * types of all these fields except the derived ones.
 */
export interface Shown {
  shownBody: TObject
  shownKinds: Readonly<Record<string, ColumnKind>>
}

/**
 * Returns a declaration whose `body` also includes the computed and derived fields, and whose `kinds` also include the
 * computed fields, for queries.
 */
export const shownDeclaration = <D extends Shown>(declaration: D) => ({
  ...declaration,
  ...{ body: declaration.shownBody, kinds: declaration.shownKinds },
})
