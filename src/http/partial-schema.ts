import type { TObject, TOptional, TProperties, TSchemaOptions } from 'typebox'

type Part<P extends TProperties> = TObject<{ [Name in keyof P]: TOptional<P[Name]> }>

/**
 * Returns the schema of a response that `fields` may reduce: members may be absent at any depth, and defaults are not
 * inserted. The OpenAPI document still states which members the full response always has.
 */
export const partialSchema = <P extends TProperties>(whole: TObject<P>, options: TSchemaOptions = {}) =>
  ({ ...partial(whole), ...options, whole: { ...whole, ...options } }) as unknown as Part<P>

const maps = ['properties', 'patternProperties', '$defs']
const lists = ['anyOf', 'oneOf', 'allOf', 'prefixItems']
const ones = ['items', 'additionalProperties']

/** Makes every member optional and drops defaults, at any depth. */
function partial<T>(schema: T): T {
  if (typeof schema !== 'object' || schema === null) return schema
  const { required, default: _, ...rest } = schema as Record<string, unknown>
  // The discriminator of a union may be absent, so the value could match any variant.
  if (hasSeveralShapes(rest.anyOf ?? rest.oneOf)) return {} as T
  const below = Object.entries(rest).map(([keyword, value]) => {
    if (maps.includes(keyword)) return [keyword, eachOf(value as object)]
    if (lists.includes(keyword)) return [keyword, (value as unknown[]).map(partial)]
    return [keyword, ones.includes(keyword) ? partial(value) : value]
  })
  return Object.fromEntries(below)
}

const eachOf = (schemas: object) =>
  Object.fromEntries(Object.entries(schemas).map(([name, one]) => [name, partial(one)]))

const hasSeveralShapes = (choices: unknown): boolean =>
  Array.isArray(choices) && choices.filter(({ type }) => type === 'object' || type === 'array').length > 1

/**
 * Documents rules that a handler checks itself, either to report all violations at once or to send clearer messages
 * than a validator. They appear in the schema of the OpenAPI document, and are stored in `$defs`, which validators
 * ignore.
 */
export const documentedRules = (rules: DocumentedRules) => ({ $defs: { rules } })

/** Documents a schema other than the one used for validation, to omit input that is accepted but undocumented. */
export const documentedAs = (schema: object) => ({ $defs: { documented: schema } })

/** Omits a query parameter from the OpenAPI document. */
export const undocumented = { $defs: { documented: false } }

export interface DocumentedRules {
  default?: unknown
  enum?: readonly string[]
  pattern?: string
  format?: string
  maxLength?: number
  minimum?: number
  maximum?: number
  propertyNames?: { pattern: string }
}
