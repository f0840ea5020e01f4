/** A JSON Schema (2020-12) as plain data. */
export interface Schema {
  type?: string | string[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  description?: string
  [keyword: string]: unknown
}

/** The content of a body with one media type (OpenAPI 3.1, Media Type Object). */
export interface MediaType {
  schema?: Schema
  example?: unknown
  examples?: Record<string, { value: unknown }>
  /** The accepted media types of each part of a form. */
  encoding?: Readonly<Record<string, { contentType: string }>>
}

/**
 * Converts a schema to plain JSON: applies `documentedAs` and `documentedRules`, and expresses maps as
 * `additionalProperties`, which generators support.
 */
export function plain<T>(schema: T): T {
  return JSON.parse(JSON.stringify(schema), (_key, value) => withDocumentedRules(isMap(value) ? asMap(value) : value))
}

/** Merges `documentedRules` into the schema; `documentedAs` replaces it. */
function withDocumentedRules(value: unknown): unknown {
  const { rules, documented } = (value as { $defs?: { rules?: object; documented?: object } } | null)?.$defs ?? {}
  if (documented !== undefined) return documented
  if (rules === undefined) return value
  const { $defs, ...rest } = value as Schema
  return { ...rest, ...rules }
}

type MapSchema = { patternProperties: Record<string, unknown> }

const anyName = '^.*$'

const isMap = (value: unknown): value is MapSchema =>
  Object.keys((value as Partial<MapSchema> | null)?.patternProperties ?? {}).join() === anyName

const asMap = ({ patternProperties, ...rest }: MapSchema) => ({
  ...rest,
  additionalProperties: patternProperties[anyName],
})

/**
 * Returns the schema of the full response, which states the members that are always present. The given schema may
 * describe a partial response.
 */
export const wholeOf = ({ whole, ...schema }: Schema): Schema => (whole as Schema | undefined) ?? schema

/** Assigns each object shape a single component name. */
export interface SchemaNames {
  schemas: Record<string, Schema>
  /**
   * Returns a reference to an object schema, under its existing name or else the first available one; the schema itself
   * if all names are taken.
   */
  refer: (schema: Schema, names: readonly string[]) => Schema
}

/** Tracks a document's schema names; the names in `known` are reserved for the given schemas. */
export function schemaNames(known: Record<string, Schema>): SchemaNames {
  const schemas = { ...known }
  const byShape = new Map(Object.entries(known).map(([name, schema]) => [JSON.stringify(schema), name]))
  const refer: SchemaNames['refer'] = (schema, names) => {
    if (schema.items) return { ...schema, items: refer(schema.items, names) }
    if (schema.properties === undefined) return schema
    const shape = JSON.stringify(schema)
    const name = byShape.get(shape) ?? names.find((free) => !Object.hasOwn(schemas, free))
    if (name === undefined) return schema
    byShape.set(shape, name)
    schemas[name] = schema
    return { $ref: `#/components/schemas/${name}` }
  }
  return { schemas, refer }
}

export const capital = (name: string): string => `${name[0]?.toUpperCase()}${name.slice(1)}`

const singular = (noun: string) => noun.replace(/ies$/, 'y').replace(/s$/, '')

/**
 * Returns candidate schema names for an operation: for example, `readUser` returns `User`, and `createUser` accepts
 * `UserCreate`.
 */
export function operationSchemaNames(operationId: string): { body: string[]; answer: string[] } {
  const [, verb = '', noun = ''] = /^([a-z]+)([A-Z]\w*)$/.exec(operationId) ?? []
  if (noun === '') return { body: [], answer: [] }
  const one = singular(noun)
  const answers: Record<string, string[]> = { list: [one, `${one}Item`], create: [noun, `Created${noun}`] }
  const action = noun + capital(verb)
  // `WebhookTest` is not possible, because Go compiles files named `*_test.go` only for tests.
  const body = ['create', 'replace', 'patch'].includes(verb) ? action : `${action}Request`
  return { body: [body], answer: answers[verb] ?? [noun, `${action}Result`] }
}

/**
 * Returns an object's merge patch schema (RFC 7396): every member is optional, and null removes an optional member.
 * There are no defaults, because absent members stay unchanged.
 */
export function mergePatchOf({ properties = {}, required = [], ...rest }: Schema): Schema {
  const members = Object.entries(properties).map(([name, schema]) => [
    name,
    required.includes(name) ? partPatchOf(schema) : { anyOf: [partPatchOf(schema), { type: 'null' }] },
  ])
  return { ...rest, properties: Object.fromEntries(members) }
}

/** Returns a member's patch schema: objects are patched recursively, and all other values are replaced. */
function partPatchOf({ default: _, ...schema }: Schema): Schema {
  return schema.properties ? mergePatchOf(schema) : schema
}
