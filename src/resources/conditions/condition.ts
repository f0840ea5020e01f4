import type { Static, TObject } from 'typebox'

/** Values that conditions compare. */
type Scalar = string | number | boolean

interface Equality<V> {
  /** True of rows with one of these values. */
  in?: readonly (V | null | undefined)[] | null
  /** True of rows with another value or without one. */
  not?: V | null
  /** `true`: of rows without a value; `false`: of rows with one. */
  null?: boolean | null
}

/** `from` and `to` include the value, `before` and `after` do not. */
interface Order<V> {
  from?: V | null
  to?: V | null
  before?: V | null
  after?: V | null
}

interface Start {
  /** True of text that begins with this. */
  prefix?: string | null
}

/** Order operators apply to plain strings and numbers, `prefix` to plain strings; neither applies to enumerations. */
type Operators<V> = Equality<V> &
  (number extends V ? Order<V> : unknown) &
  (string extends V ? Order<V> & Start : unknown)

type Comparison<V> = [V] extends [Scalar] ? V | Operators<V> | null : Pick<Equality<never>, 'null'>

/**
 * A condition on rows, as data: all of its members hold. A value that is null or undefined matches no row under any
 * operator. A calendar day may be compared with `'today'`. The name of a relation holds the condition that the related row
 * must meet; a row without one does not match, whatever that condition says.
 */
export type Condition<Fields extends object, Related extends object = object> = {
  readonly [Name in keyof Fields | keyof Related]?: Name extends keyof Fields
    ? Comparison<NonNullable<Fields[Name]>>
    : Name extends keyof Related
      ? Condition<Extract<Related[Name], object>> | null
      : never
} & {
  /** At least one of these holds. */
  readonly any?: readonly Condition<Fields, Related>[] | null
  /** Each of these holds. */
  readonly all?: readonly Condition<Fields, Related>[] | null
}

/** The fields of a resource that conditions can name: those of its body and those that the service keeps. */
export type FieldsOf<B extends TObject> = Static<B> & { id: number; createdAt: string; updatedAt: string }

/** Maximum size of a condition. */
export const maxCondition = { comparisons: 100, values: 1_000, depth: 8 } as const

/** A condition that cannot be used; the message lists every error. */
export class ConditionError extends Error {
  override name = 'ConditionError'
  readonly errors: readonly string[]

  constructor(errors: readonly string[]) {
    super(`The condition is not valid: ${errors.join('; ')}`)
    this.errors = errors
  }
}
