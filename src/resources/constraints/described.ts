import type { TSchema } from 'typebox'
import { amended } from '../column-types.ts'

/** Returns a schema with additional keywords, and with a rule, such as `cannot be changed`, in its description. */
export function described(schema: TSchema, rule: string, keywords: object = {}): TSchema {
  const { description } = schema as { description?: string }
  const text = description === undefined ? `${rule[0]?.toUpperCase()}${rule.slice(1)}` : `${description}; ${rule}`
  return amended(schema, { description: text, ...keywords })
}
