import type { TObject, TSchema } from 'typebox'
import type { Collection } from '../declaration.ts'
import { refOf } from './ref.ts'
import { deleteRules, relationName } from './reference.ts'

/** Returns the errors in the references of a body; `reserved` are names that no relation may have. */
export function referenceErrors(body: TObject, reserved: readonly string[]): string[] {
  return Object.entries(body.properties as Record<string, TSchema>).flatMap(([field, schema]) =>
    refOf(schema) === undefined ? nestedErrors(field, schema) : fieldErrors(body, field, schema, reserved),
  )
}

function fieldErrors(body: TObject, field: string, schema: TSchema, reserved: readonly string[]): string[] {
  const { to, onDelete } = refOf(schema) as NonNullable<ReturnType<typeof refOf>>
  const name = relationName(field)
  const isRequired = Boolean(body.required?.includes(field))
  const errors: string[] = []
  if (to !== 'self' && !isCollection(to)) {
    errors.push(`the field ${field} refers to no collection: pass Ref() a collection declared above it, or 'self'`)
  }
  if (!deleteRules.includes(onDelete)) {
    errors.push(`onDelete of the field ${field} must be one of ${deleteRules.join(', ')}`)
  }
  if (name === field) {
    errors.push(`the field ${field} is a reference: its name must end in Id, such as ${field}Id`)
  } else if (name in body.properties || reserved.includes(name)) {
    errors.push(`the field ${field} is the reference of '${name}', which is the name of another member: rename one`)
  }
  if (onDelete === 'setNull' && isRequired) {
    errors.push(`the field ${field} is required, so onDelete cannot be setNull: use Type.Optional(Ref(…)), or cascade`)
  }
  if (to === 'self' && isRequired) {
    errors.push(
      `the field ${field} is required and refers to its own collection, so there could be no first row: use Type.Optional(Ref('self'))`,
    )
  }
  return errors
}

const isCollection = (value: unknown): value is Collection =>
  typeof (value as Partial<Collection> | null)?.declaration?.table === 'string'

/**
 * Returns an error for a field that contains references inside an object or array. The field is stored as JSON, so the
 * database could not check them.
 */
function nestedErrors(field: string, schema: TSchema): string[] {
  return containsReference(schema)
    ? [`the field ${field} contains a reference: a reference must be a field of its own, such as ${field}Id: Ref(…)`]
    : []
}

function containsReference(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return false
  return '~reference' in schema || Object.values(schema).some(containsReference)
}
