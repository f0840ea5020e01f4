import type { TInteger, TObject, TSchema, TString } from 'typebox'
import type { IdType } from '../../storage/ids.ts'
import { amended } from '../column-types.ts'
import type { Collection, Declaration } from '../declaration.ts'
import { idTypes } from '../id-types.ts'
import { type OnDelete, type Reference, relationName } from './reference.ts'

/**
 * Data that a reference's schema carries for `collection()`; not enumerable, so that it does not appear in OpenAPI
 * documents.
 */
export interface RefDetails<C extends Collection | 'self' = Collection | 'self'> {
  to: C
  onDelete: OnDelete
}

/** The schema of a field that contains the id of a row in another collection, or in the same collection (`self`). */
export type TRef<C extends Collection | 'self'> = (IdsOf<C> extends 'uuid' ? TString : TInteger) & {
  '~reference': RefDetails<C>
}

/** The type of a collection's ids. */
export type IdsOf<C> = C extends { '~names'?: { ids: infer Ids extends IdType } } ? Ids : 'integer'

/** What happens to a row when the row that it refers to is deleted. */
export interface RefOptions {
  /**
   * `restrict` (the default) refuses to delete the other row; `cascade` also deletes this row; `setNull` removes the
   * reference, which must be optional.
   */
  onDelete?: OnDelete
}

/**
 * Creates a field that refers to a row of a collection, or of the same collection (`'self'`), by its id. The field's
 * name must end in `Id`; without this ending, it is the name of the relation: `customerId` is the reference for
 * `customer`.
 */
export function Ref<C extends Collection | 'self'>(to: C, { onDelete = 'restrict' }: RefOptions = {}): TRef<C> {
  const { noun, ids = 'integer' } = (to as Collection | undefined)?.declaration ?? {}
  const description = noun === undefined ? 'The id of another one' : `The id of the ${noun}`
  // For 'self', `withOwnReferences` replaces the schema if the ids of the collection have another type.
  const schema = idTypes[ids].schema(description)
  return Object.defineProperty(schema, '~reference', { value: { to, onDelete } satisfies RefDetails }) as never
}

/** Returns the details of a reference; undefined if the schema is not a reference. */
export const refOf = (schema: TSchema): RefDetails | undefined =>
  (schema as { '~reference'?: RefDetails })['~reference']

/** Returns the options, with references to the same collection changed to its id type. */
export function withOwnReferences<Options extends { ids?: IdType; body: TObject }>(options: Options): Options {
  const { ids = 'integer', body } = options ?? {}
  if (ids === 'integer' || !Object.hasOwn(idTypes, ids) || typeof body?.properties !== 'object') return options
  const properties = Object.entries(body.properties as Record<string, TSchema>).map(([field, schema]) => {
    if (refOf(schema)?.to !== 'self') return [field, schema]
    const own = idTypes[ids].schema(String((schema as { description?: string }).description))
    const marks = Object.entries(Object.getOwnPropertyDescriptors(schema)).filter(
      ([name]) => name !== 'minimum' && !Object.hasOwn(own, name),
    )
    return [field, amended(own, Object.defineProperties({}, Object.fromEntries(marks)))]
  })
  return { ...options, body: amended(body, { properties: Object.fromEntries(properties) }) }
}

type Own = Pick<Declaration, 'path' | 'noun' | 'table'>

/** Returns the references among the fields of a valid body. */
export function referencesOf(body: TObject, own: Own): Reference[] {
  return Object.entries(body.properties as Record<string, TSchema>).flatMap(([field, schema]) => {
    const details = refOf(schema)
    if (details === undefined) return []
    const { path, noun, table } = details.to === 'self' ? own : details.to.declaration
    return [{ field, name: relationName(field), path, noun, table, onDelete: details.onDelete }]
  })
}
