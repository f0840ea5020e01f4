import type { TObject } from 'typebox'
import type { FieldsOf } from '../conditions/condition.ts'
import type { Collection } from '../declaration.ts'
import type { TRef } from './ref.ts'

/**
 * The relations in a body by name, such as `customer` for `customerId: Ref(customers)`, with the fields of the related
 * rows.
 */
export type RelatedFields<B extends TObject> = {
  [Field in keyof B['properties'] as RelationName<Field, B>]: B['properties'][Field] extends TRef<infer To>
    ? RowFields<To extends Collection<infer Body> ? Body : B>
    : never
}

type RelationName<Field, B extends TObject> = Field extends keyof B['properties'] & `${infer Name}Id`
  ? B['properties'][Field] extends TRef<Collection | 'self'>
    ? Name
    : never
  : never

/** The fields that access rules can name. */
type RowFields<B extends TObject> = FieldsOf<B> & { createdBy: string }
