import type { TObject, TOptional, TProperties, TSchemaOptions } from 'typebox'

type Part<P extends TProperties> = TObject<{ [Name in keyof P]: TOptional<P[Name]> }>

/**
 * An answer that `fields` may narrow: it is sent with the members it has, at any depth, and no default is added to them; the
 * OpenAPI document still says which of them a whole answer always has.
 */
export const partialResponse = <P extends TProperties>(whole: TObject<P>, options: TSchemaOptions = {}) =>
  ({ ...partial(whole), ...options, whole: { ...whole, ...options } }) as unknown as Part<P>

const maps = ['properties', 'patternProperties', '$defs']
const lists = ['anyOf', 'oneOf', 'allOf', 'prefixItems']
const ones = ['items', 'additionalProperties']

/** A schema of which nothing is required and nothing is filled in, at any depth. */
function partial<T>(schema: T): T {
  if (typeof schema !== 'object' || schema === null) return schema
  const { required, default: _, ...rest } = schema as Record<string, unknown>
  // What tells its kinds of objects from one another may be left out, and then it could be any.
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
 * Rules that a handler judges itself, because it names all broken ones at once or in better words than a validator: the
 * OpenAPI document tells them as if they stood in the schema. They stand among its definitions, which every validator
 * leaves alone.
 */
export const documentedRules = (rules: Rules) => ({ $defs: { judged: rules } })

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
