import type { Static, TObject } from 'typebox'
import type { IdOf, IdType } from '../../storage/ids.ts'

/** Values that conditions can compare fields with. */
type Scalar = string | number | boolean

interface Equality<V> {
  /** Matches rows with one of these values. */
  in?: readonly (V | null | undefined)[] | null
  /** Matches rows with a different value or no value. */
  not?: V | null
  /** `true` matches rows without a value, `false` rows with a value. */
  null?: boolean | null
}

/** `from` and `to` include the value; `before` and `after` exclude it. */
interface Order<V> {
  from?: V | null
  to?: V | null
  before?: V | null
  after?: V | null
}

interface Start {
  /** Matches text that begins with this prefix. */
  prefix?: string | null
}

/**
 * Permits ordering operators for strings and numbers, and `prefix` for strings, but none of them for enumerations. At
 * run time, `operatorsOf` decides by the field's kind.
 */
type Operators<V> = Equality<V> &
  (number extends V ? Order<V> : unknown) &
  (string extends V ? Order<V> & Start : unknown)

type Comparison<V> = [V] extends [Scalar] ? V | Operators<V> | null : Pick<Equality<never>, 'null'>

/**
 * A condition on rows, as data: a row must meet every member. A comparison with null or undefined matches no row. A
 * calendar day may be compared with `'today'`. A member named after a relation contains the condition on the related
 * row; a row without a related row does not meet it.
 */
export type Condition<Fields extends object, Related extends object = object> = {
  readonly [Name in keyof Fields | keyof Related]?: Name extends keyof Fields
    ? Comparison<NonNullable<Fields[Name]>>
    : Name extends keyof Related
      ? Condition<Extract<Related[Name], object>> | null
      : never
} & {
  /** At least one of these conditions must hold. */
  readonly any?: readonly Condition<Fields, Related>[] | null
  /** All of these conditions must hold. */
  readonly all?: readonly Condition<Fields, Related>[] | null
}

/** The fields that all conditions on a resource can name: those of its body, `id`, `createdAt` and `updatedAt`. */
export type FieldsOf<B extends TObject, Ids extends IdType = 'integer'> = BodyOf<B, Ids> & {
  id: IdOf<Ids>
  createdAt: string
  updatedAt: string
}

/** The values of a body. References to the same collection have the type of its ids. */
export type BodyOf<B extends TObject, Ids extends IdType = 'integer'> = [Ids] extends ['uuid']
  ? { [F in keyof Static<B>]: F extends OwnReferences<B> ? string | Extract<Static<B>[F], undefined> : Static<B>[F] }
  : Static<B>

type OwnReferences<B extends TObject> = {
  [F in keyof B['properties']]: B['properties'][F] extends { '~reference': { to: 'self' } } ? F : never
}[keyof B['properties']]

/** Limits on the size of a condition. */
export const maxCondition = { comparisons: 100, values: 1_000, depth: 8 } as const

/** Thrown for an invalid condition; the message lists every error. */
export class ConditionError extends Error {
  override name = 'ConditionError'
  readonly errors: readonly string[]

  constructor(errors: readonly string[]) {
    super(`The condition is not valid: ${errors.join('; ')}`)
    this.errors = errors
  }
}
