import type { TObject, TOptional, TProperties, TSchemaOptions } from 'typebox'

type Part<P extends TProperties> = TObject<{ [Name in keyof P]: TOptional<P[Name]> }>

/**
 * The schema of a response that `fields` may narrow: at any depth, members may be absent and defaults are not filled in. The
 * OpenAPI document still states which members a whole response always has.
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
  // The member that distinguishes the variants may be absent, in which case the value could be any of them.
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
 * Rules that a handler checks itself, to report all violations at once or with clearer messages than a validator. The
 * OpenAPI document presents them as part of the schema. They are stored in `$defs`, which validators ignore.
 */
export const documentedRules = (rules: DocumentedRules) => ({ $defs: { rules } })

/** Documents another schema in place of the validated one, to omit input that is accepted but undocumented. */
export const documentedAs = (schema: object) => ({ $defs: { documented: schema } })

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
