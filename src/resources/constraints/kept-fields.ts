import { isDeepStrictEqual } from 'node:util'
import { type TObject, type TSchema, Type } from 'typebox'
import type { Caller } from '../../http/policies/authenticate.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { RowId } from '../../storage/ids.ts'
import { amended } from '../column-types.ts'
import type { Declaration } from '../declaration.ts'
import { described } from './described.ts'

/** The options of `collection()` that these checks need. */
interface Declared {
  body: TObject
  writeOnly?: readonly string[]
  immutable?: readonly string[]
  hides?: { fields: readonly string[] }
}

const listNames = ['filters', 'ranges', 'search', 'sorts', 'listed', 'unique'] as const
type Lists = { [Name in (typeof listNames)[number]]?: readonly (string | readonly string[])[] }

/** Returns the errors in `writeOnly` and `immutable`. */
export function keptFieldErrors(declared: Declared & Lists): string[] {
  const { body, writeOnly = [], immutable = [], hides } = declared
  const unknown = Object.entries({ writeOnly, immutable }).flatMap(([list, fields]) =>
    fields
      .filter((field) => !Object.hasOwn(body.properties, field))
      .map((field) => `${list} names '${field}', but body has no such field`),
  )
  const revealing = listNames.flatMap((list) => {
    const named = [declared[list] ?? []].flat(2).filter((field) => writeOnly.includes(field))
    return named.map((field) => `${list} cannot include ${field}: it is write-only`)
  })
  // A refused change would reveal that the sent value differs from the stored one.
  const guessable = immutable
    .filter((field) => writeOnly.includes(field) || hides?.fields.includes(field))
    .map(
      (field) => `immutable cannot include ${field}: not every caller may see it, and a refusal would reveal its value`,
    )
  const marked = Object.entries(body.properties)
    .filter(([field, schema]) => (schema as { writeOnly?: boolean }).writeOnly === true && !writeOnly.includes(field))
    .map(([field]) => `the schema of ${field} says writeOnly: name it in the option writeOnly`)
  return [...unknown, ...revealing, ...guessable, ...marked]
}

/**
 * Returns the body schema in which the descriptions of write-only and immutable fields state their rules, and
 * write-only fields are marked as `writeOnly`.
 */
export function withKeptFields({ body, writeOnly = [], immutable = [] }: Declared): TObject {
  const properties = Object.entries(body.properties).map(([field, schema]) => {
    if (writeOnly.includes(field))
      return [field, described(schema, 'never returned; kept by a PUT without it', { writeOnly: true })]
    if (immutable.includes(field)) return [field, described(schema, 'cannot be changed; kept by a PUT without it')]
    return [field, schema]
  })
  return amended(body, { properties: Object.fromEntries(properties) })
}

/**
 * Returns the body schema of a PUT, in which fields that keep their values may be omitted; returns the same schema if
 * there are none.
 */
export function replacementOf(input: TObject, kept: readonly string[]): TObject {
  const required = input.required?.filter((field) => !kept.includes(field)) ?? []
  return kept.length > 0 ? amended(input, { required }) : input
}

/**
 * Returns the schema of a PATCH body. It accepts any object, because the handler validates the members. The OpenAPI
 * document uses the schema in `whole` or, if absent, that of the PUT body.
 */
export const patchOf = ({ input, patchable, replacement }: Declaration): TSchema =>
  Object.assign(Type.Object({}), input === replacement ? {} : { whole: patchable })

/**
 * Returns the fields that keep their values if a PUT omits them: fields that the caller cannot see or change, and the
 * fields of `defaults`.
 */
export function keptFields(declaration: Declaration, caller: Caller, id: RowId): readonly string[] {
  const { hides, writeOnly, immutable, set, defaults, files, writers, view, kinds } = declaration
  const hidden = hides && !hides.unless(caller, id) ? hides.fields : []
  const foreign = writers?.kept(caller, id) ?? []
  const unsent = [...Object.keys(set), ...Object.keys(defaults), ...files.map(({ field }) => field)]
  const kept = [...hidden, ...foreign, ...writeOnly, ...immutable, ...unsent]
  // In a view, `writeOnly` may include hidden sums and counts, which are never written.
  return view ? kept.filter((field) => Object.hasOwn(kinds, field)) : kept
}

type Values = Readonly<Record<string, unknown>>

/** Throws 422 naming each immutable field that would change. */
export function checkImmutable(immutable: readonly string[], row: Values, values: Values): void {
  const changed = immutable.filter((field) => !isDeepStrictEqual(row[field] ?? null, values[field] ?? null))
  if (changed.length === 0) return
  const errors = changed.map((field) => ({ field, message: 'cannot be changed' }))
  throw new Problem('VALIDATION_ERROR', 'Some fields break a rule', { errors })
}
