import type { Static, TObject, TSchema } from 'typebox'
import type { IdType } from '../../storage/ids.ts'
import type { RuleCaller } from '../access/rules.ts'
import { amended } from '../column-types.ts'
import type { BodyOf } from '../conditions/condition.ts'
import { isCounting, type Next } from './counted.ts'
import { hasDefault, isValidValue } from './defaults.ts'
import { described } from './described.ts'

/** The argument of the functions in `set` and `defaults`. */
export interface CreationContext<Claims = object, Role extends string = string> {
  /** The caller who creates the row, with the claims that access rules see. */
  caller: RuleCaller<Claims, Role>
  /** Returns the current time. */
  clock: () => Date
  /** Returns the next number of a counter; only async functions can use it. */
  next: Next
}

type Value<B extends TObject, F extends keyof Static<B>, Ids extends IdType> = NonNullable<
  BodyOf<B, Ids>[F & keyof BodyOf<B, Ids>]
>

type ValueOrPromise<V> = V | Promise<V>

/**
 * Values for fields of new rows: constants, or pure functions of the context. A function may be async only to await
 * `next()`.
 */
export type DefaultValues<
  B extends TObject,
  Claims = object,
  Role extends string = string,
  Ids extends IdType = 'integer',
> = {
  readonly [F in keyof Static<B>]?: DefaultValue<Value<B, F, Ids>, Claims, Role>
}

export type DefaultValue<V, Claims = object, Role extends string = string> =
  | V
  | ((context: CreationContext<Claims, Role>) => ValueOrPromise<V>)

/** Like `DefaultValues`, but if a function returns undefined, the creation is refused with 403. */
export type SetValues<
  B extends TObject,
  Claims = object,
  Role extends string = string,
  Ids extends IdType = 'integer',
> = {
  readonly [F in keyof Static<B>]?:
    | Value<B, F, Ids>
    | ((context: CreationContext<Claims, Role>) => ValueOrPromise<Value<B, F, Ids> | null | undefined>)
}

/** The names of the fields that `set` and `defaults` fill in; used only for type inference. */
export interface GivenFields<Set extends string, Defaulted extends string> {
  set?: { readonly [F in Set]?: unknown }
  defaults?: { readonly [F in Defaulted]?: unknown }
}

/** The values and functions of `set` or `defaults`, by field. */
export type CheckedValues = Readonly<Record<string, unknown>>

interface Declared {
  body: TObject
  set?: CheckedValues
  defaults?: CheckedValues
  unique: readonly string[]
}

/** Returns the errors in `set` and `defaults`; `body` is the schema of stored bodies. */
export function creationErrors({ body, set = {}, defaults = {}, unique }: Declared): string[] {
  const both = Object.keys(set).filter((field) => Object.hasOwn(defaults, field))
  return [
    ...Object.entries(set).flatMap(([field, value]) => valueErrors('set', body, field, value)),
    ...Object.entries(defaults).flatMap(([field, value]) => valueErrors('defaults', body, field, value)),
    ...both.map((field) => `set and defaults both name ${field}: a body never has a value for a field of set`),
    ...Object.entries({ ...set, ...defaults })
      .filter(([field, value]) => unique.includes(field) && typeof value !== 'function')
      .map(([field]) => `unique cannot include ${field}: several rows would have its default`),
  ]
}

/**
 * Returns the errors in the value that `option` assigns to a field. The field's schema may have a default only if
 * `overrides` is set.
 */
export function valueErrors(
  option: string,
  { properties }: TObject,
  field: string,
  value: unknown,
  overrides = false,
): string[] {
  const schema = properties[field] as TSchema | undefined
  if (!Object.hasOwn(properties, field) || schema === undefined) {
    return [`${option} names '${field}', but body has no such field`]
  }
  if (hasDefault(schema) && !overrides) return [`${option} cannot include ${field}: its schema has a default`]
  if (isCounting(value) && value.length === 0) {
    return [
      `${option}: the function of ${field} must not be async: it may only await next(), as in async ({ next }) => …`,
    ]
  }
  if (typeof value === 'function' || isValidValue(schema, value)) return []
  return [`${option}: the value of ${field} is not valid for its type`]
}

/** Returns the body schema with the fields of `set` marked as read-only. */
export function withCreation(body: TObject, set: CheckedValues): TObject {
  return withProperties(body, (field, schema) =>
    Object.hasOwn(set, field) ? described(schema, 'set by the service', { readOnly: true }) : schema,
  )
}

/** Returns the body schema of a POST: without the fields of `set`, and with the fields of `defaults` optional. */
export function creationOf(input: TObject, set: CheckedValues, defaults: CheckedValues): TObject {
  if (Object.keys(defaults).length === 0) return withoutSet(input, set)
  const documented = withProperties(input, (field, schema) => {
    if (!Object.hasOwn(defaults, field)) return schema
    const value = defaults[field]
    return typeof value === 'function'
      ? described(schema, 'set by the service if it is absent')
      : amended(schema, { default: value })
  })
  const required = input.required?.filter((field) => !Object.hasOwn(defaults, field)) ?? []
  return withoutSet(amended(documented, { required }), set)
}

/** Returns a body schema without the fields of `set`, which clients cannot write. */
export function withoutSet(schema: TObject, set: CheckedValues): TObject {
  if (Object.keys(set).length === 0) return schema
  const properties = Object.entries(schema.properties).filter(([field]) => !Object.hasOwn(set, field))
  const required = schema.required?.filter((field) => !Object.hasOwn(set, field)) ?? []
  return amended(schema, { required, properties: Object.fromEntries(properties) })
}

const withProperties = (body: TObject, change: (field: string, schema: TSchema) => TSchema): TObject =>
  amended(body, {
    properties: Object.fromEntries(
      Object.entries(body.properties as Record<string, TSchema>).map(([field, schema]) => [
        field,
        change(field, schema),
      ]),
    ),
  })

type Body = Record<string, unknown>

/** Fields that a body may not set: the fields of `set`, files, and the fields that a view hides. */
export interface Unsettable {
  set: CheckedValues
  files: readonly { field: string }[]
  view?: { hidden: readonly string[] }
}

/** Returns the body without the fields that a body may not set, or the same object if it contains none of them. */
export function settable({ set, files, view }: Unsettable, body: Body): Body {
  const isUnsettable = (field: string) =>
    Object.hasOwn(set, field) || files.some((file) => file.field === field) || (view?.hidden.includes(field) ?? false)
  return Object.keys(body).some(isUnsettable)
    ? Object.fromEntries(Object.entries(body).filter(([field]) => !isUnsettable(field)))
    : body
}
