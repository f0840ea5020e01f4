import type { Static, TObject, TSchema } from 'typebox'
import { inputValidator } from '../../http/policies/body-parsing.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Queryable } from '../../storage/database.ts'
import { amended } from '../column-types.ts'
import { counted, isCounting, type Next, nextOutside } from './counted.ts'
import { hasDefault, isValidValue } from './defaults.ts'
import { described } from './described.ts'

/** What the functions of `set` and `defaults` get. */
export interface CreationContext {
  /** The time of the creation. */
  clock: () => Date
  /** Returns the next number of a counter, for async functions. */
  next: Next
}

type Value<B extends TObject, F extends keyof Static<B>> = NonNullable<Static<B>[F]>

/** The values of new rows by field: constants, or pure functions of the context, async only to await `next`. */
export type CreationValues<B extends TObject> = {
  readonly [F in keyof Static<B>]?: Value<B, F> | ((context: CreationContext) => Value<B, F> | Promise<Value<B, F>>)
}

/** `set` and `defaults` once their types are checked. */
export type Values = Readonly<Record<string, unknown>>

interface Declared {
  body: TObject
  set?: Values
  defaults?: Values
  unique: readonly string[]
}

/** Returns the errors in `set` and `defaults`; `body` has the rules of storage. */
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

function valueErrors(option: string, { properties }: TObject, field: string, value: unknown): string[] {
  const schema = properties[field] as TSchema | undefined
  if (!Object.hasOwn(properties, field) || schema === undefined) {
    return [`${option} names '${field}', but body has no such field`]
  }
  if (hasDefault(schema)) return [`${option} cannot include ${field}: its schema has a default`]
  if (isCounting(value) && value.length === 0) {
    return [
      `${option}: the function of ${field} must not be async: it may only await next(), as in async ({ next }) => …`,
    ]
  }
  if (typeof value === 'function' || isValidValue(schema, value)) return []
  return [`${option}: the value of ${field} is not valid for its type`]
}

/** The body with the fields of `set` marked as read-only. */
export function withCreation(body: TObject, set: Values): TObject {
  return withProperties(body, (field, schema) =>
    Object.hasOwn(set, field) ? described(schema, 'set by the service', { readOnly: true }) : schema,
  )
}

/** The body of a POST: without the fields of `set`; those of `defaults` are optional. */
export function creationOf(input: TObject, set: Values, defaults: Values): TObject {
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

/** A body schema without the fields of `set`, which bodies cannot change. */
export function withoutSet(schema: TObject, set: Values): TObject {
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

/** The members of a body, without those of `set`. The same object if there are none. */
export const settable = ({ set }: { set: Values }, body: Body): Body =>
  Object.keys(set).some((field) => field in body)
    ? Object.fromEntries(Object.entries(body).filter(([field]) => !Object.hasOwn(set, field)))
    : body

interface Created {
  path: string
  noun: string
  input: TObject
  set: Values
  defaults: Values
}

/** Gives the body of a new row its values of `set` and `defaults`, in a copy. */
export interface Creator {
  /** Before the transaction. */
  created: (body: Body) => Body
  /** In the transaction, if a function awaits `next()`: instead of `created`. */
  createdIn: ((tx: Queryable, body: Body) => Promise<Body>) | undefined
}

/**
 * Returns the functions for a new body. They throw 403 if a function of `set` returns nothing, and an error, which becomes a
 * 500, if a function throws or returns an invalid value.
 */
export function creator(declaration: Created, now: () => number): Creator {
  const { set, defaults } = declaration
  const all = [...Object.values(set), ...Object.values(defaults)]
  if (all.length === 0) return { created: (body) => body, createdIn: undefined }
  const complete = completer(declaration)
  const clock = () => new Date(now())
  const created = (body: Body) => {
    const context = { clock, next: nextOutside }
    const values = missing(declaration, body).map(([field, value, place]) => [field, resolved(value, place, context)])
    return complete(body, Object.fromEntries(values))
  }
  if (!all.some(isCounting)) return { created, createdIn: undefined }
  const createdIn = async (tx: Queryable, body: Body) => {
    const values: Body = {}
    for (const [field, value, place] of missing(declaration, body)) {
      values[field] = isCounting(value)
        ? await counted(tx, ({ next }) => value({ clock, next })).catch(failing(place))
        : resolved(value, place, { clock, next: nextOutside })
    }
    return complete(body, values)
  }
  return { created, createdIn }
}

/** The fields of a body that get values, with their declared values and their places. */
function missing({ path, set, defaults }: Created, body: Body): [field: string, value: unknown, place: string][] {
  const absent = Object.entries(defaults).filter(([field]) => !(field in body))
  return [
    ...absent.map(([field, value]): [string, unknown, string] => [field, value, `${path}: defaults.${field}`]),
    ...Object.entries(set).map(([field, value]): [string, unknown, string] => [field, value, `${path}: set.${field}`]),
  ]
}

/** Returns the function that adds checked values to a body. */
function completer(declaration: Created): (body: Body, values: Body) => Body {
  const { path, noun, input, set, defaults } = declaration
  const fields = [...Object.keys(set), ...Object.keys(defaults)]
  const properties = Object.fromEntries(fields.map((field) => [field, input.properties[field]]))
  const check = inputValidator(amended(input, { required: [], properties }), 'body')
  return (body, values) => {
    const absent = Object.keys(set).find((field) => (values[field] ?? undefined) === undefined)
    if (absent !== undefined) {
      throw new Problem('PERMISSION_DENIED', `You cannot create a ${noun}: it needs ${absent}`)
    }
    const present = Object.fromEntries(Object.entries(values).filter(([, value]) => (value ?? undefined) !== undefined))
    const result = check(present)
    if ('error' in result) {
      const failures = result.error.map(({ instancePath, message }) => `${instancePath.slice(1)} ${message}`)
      throw new Error(`${path}: set or defaults returned an invalid value: ${failures.join(', ')}`)
    }
    return { ...settable(declaration, body), ...present }
  }
}

/** The value of a field; undefined if its function returns nothing. */
function resolved(value: unknown, place: string, context: CreationContext): unknown {
  if (typeof value !== 'function') return structuredClone(value)
  try {
    return value(context) ?? undefined
  } catch (cause) {
    return failing(place)(cause)
  }
}

const failing = (place: string) => (cause: unknown) => {
  throw new Error(`${place} threw an error`, { cause })
}
