import type { TObject, TSchema } from 'typebox'
import {
  type ConditionDeclaration,
  type ConditionFields,
  type ConditionRelation,
  type ConditionRelations,
  conditionFields,
  relationStep,
} from '../conditions/fields.ts'
import { type RefDetails, refOf } from './ref.ts'
import { relationName } from './reference.ts'

/** A reference field, and the collection that it refers to. */
export interface BodyReference {
  field: string
  to: RefDetails['to']
}

/** Returns the references in a body, by relation name. */
export function refsOf({ properties }: TObject): Map<string, BodyReference> {
  const refs = Object.entries(properties as Record<string, TSchema>).flatMap(([field, schema]) => {
    const to = refOf(schema)?.to
    return to === undefined ? [] : [[relationName(field), { field, to }] as const]
  })
  return new Map(refs)
}

/** A resource whose conditions follow relations, and the fields of its own that conditions can name. */
export interface Following {
  declaration: Pick<ConditionDeclaration, 'body' | 'ids'> & { table: string }
  fields: ConditionFields
}

/** Returns the relation for a reference, in the form that conditions use. */
export function conditionRelation({ field, to }: BodyReference, { declaration, fields }: Following): ConditionRelation {
  const target = to === 'self' ? declaration : to.declaration
  const known = to === 'self' ? fields : (to.declaration.access?.fields ?? conditionFields(to.declaration, 'letters'))
  const { table } = declaration
  return { step: relationStep({ name: relationName(field), field, table, target }), fields: known }
}

/** Returns the relations that a resource's conditions can follow. */
export const conditionRelations = (following: Following): ConditionRelations =>
  Object.fromEntries(
    [...refsOf(following.declaration.body)].map(([name, ref]) => [name, conditionRelation(ref, following)]),
  )
