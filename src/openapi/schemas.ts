/** A JSON Schema (2020-12) as plain data. */
export interface Schema {
  type?: string | string[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  description?: string
  [keyword: string]: unknown
}

/** A schema as plain JSON: documented ones and judged rules in their places, and maps as `additionalProperties`, which generators know. */
export function plain<T>(schema: T): T {
  return JSON.parse(JSON.stringify(schema), (_key, value) => withJudged(isMap(value) ? asMap(value) : value))
}

/** What a handler judges (`documentedRules`) becomes a part of the schema, what is documented instead of it (`documentedAs`) the whole. */
function withJudged(value: unknown): unknown {
  const { judged, documented } = (value as { $defs?: { judged?: object; documented?: object } } | null)?.$defs ?? {}
  if (documented !== undefined) return documented
  if (judged === undefined) return value
  const { $defs, ...rest } = value as Schema
  return { ...rest, ...judged }
}

type MapSchema = { patternProperties: Record<string, unknown> }

const anyName = '^.*$'

const isMap = (value: unknown): value is MapSchema =>
  Object.keys((value as Partial<MapSchema> | null)?.patternProperties ?? {}).join() === anyName

const asMap = ({ patternProperties, ...rest }: MapSchema) => ({
  ...rest,
  additionalProperties: patternProperties[anyName],
})

/** A narrowable answer in full: with the members that a whole one always has. */
export const wholeOf = ({ whole, ...schema }: Schema): Schema => (whole as Schema | undefined) ?? schema

/** Gives each shape of object one name among the components. */
export interface SchemaNames {
  schemas: Record<string, Schema>
  /** A reference to the schema, under the first of these names that is free; the schema itself when none is. */
  refer: (schema: Schema, names: readonly string[]) => Schema
}

/** The names of the document's schemas; those in `known` are kept for their shapes. */
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

/** What the schemas of an operation may be called: `readUser` answers with a `User`, `createUser` takes a `UserCreate`. */
export function namesOf(operationId: string): { body: string[]; answer: string[] } {
  const [, verb = '', noun = ''] = /^([a-z]+)([A-Z]\w*)$/.exec(operationId) ?? []
  if (noun === '') return { body: [], answer: [] }
  const one = singular(noun)
  const answers: Record<string, string[]> = { list: [one, `${one}Item`], create: [noun, `Created${noun}`] }
  const action = noun + capital(verb)
  // Not `WebhookTest`: Go compiles a file of that name into tests alone.
  const body = ['create', 'replace', 'patch'].includes(verb) ? action : `${action}Request`
  return { body: [body], answer: answers[verb] ?? [noun, `${action}Result`] }
}

/**
 * The merge patch of an object (RFC 7396): every member is optional, null removes one that may be absent, and what is left
 * out stays as it is, so there are no defaults.
 */
export function mergePatchOf({ properties = {}, required = [], ...rest }: Schema): Schema {
  const members = Object.entries(properties).map(([name, schema]) => [
    name,
    required.includes(name) ? partPatchOf(schema) : { anyOf: [partPatchOf(schema), { type: 'null' }] },
  ])
  return { ...rest, properties: Object.fromEntries(members) }
}

/** Objects are patched in their turn, anything else is replaced. */
function partPatchOf({ default: _, ...schema }: Schema): Schema {
  return schema.properties ? mergePatchOf(schema) : schema
}
