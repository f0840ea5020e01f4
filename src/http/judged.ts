/**
 * Rules that a handler judges itself, because it names all broken ones at once or in better words than a validator: the
 * OpenAPI document tells them as if they stood in the schema. They stand among its definitions, which every validator
 * leaves alone.
 */
export const judged = (rules: Rules) => ({ $defs: { judged: rules } })

/** A schema that the document states otherwise: what is accepted besides has no place in it. */
export const documentedAs = (schema: object) => ({ $defs: { documented: schema } })

export interface Rules {
  default?: unknown
  enum?: readonly string[]
  pattern?: string
  format?: string
  maxLength?: number
  minimum?: number
  maximum?: number
  propertyNames?: { pattern: string }
}
