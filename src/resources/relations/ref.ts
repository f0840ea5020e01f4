import { type TInteger, type TObject, type TSchema, Type } from 'typebox'
import type { Collection, Declaration } from '../declaration.ts'
import { type OnDelete, type Reference, relationName } from './reference.ts'

/**
 * Data that a reference's schema contains for `collection()`; not enumerable, so that it does not appear in documents.
 */
export interface RefDetails<C extends Collection | 'self' = Collection | 'self'> {
  to: C
  onDelete: OnDelete
}

/** The schema of a field that contains the id of a row in another collection, or in the same one (`self`). */
export interface TRef<C extends Collection | 'self'> extends TInteger {
  '~reference': RefDetails<C>
}

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
  const noun = (to as Collection | undefined)?.declaration?.noun
  const description = noun === undefined ? 'The id of another one' : `The id of the ${noun}`
  const schema = Type.Integer({ minimum: 1, description, examples: [1] })
  return Object.defineProperty(schema, '~reference', { value: { to, onDelete } satisfies RefDetails }) as TRef<C>
}

/** Returns what `Ref` stored in a schema; undefined for all other schemas. */
export const refOf = (schema: TSchema): RefDetails | undefined =>
  (schema as Partial<TRef<Collection | 'self'>>)['~reference']

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
