import type { Content } from './components.ts'
import type { Schema } from './schemas.ts'

const instant = '2026-03-01T12:00:00.000Z'
const byFormat: Record<string, string> = {
  'date-time': instant,
  date: instant.slice(0, 10),
  email: 'ada@example.com',
  uri: 'https://client.example/',
}

/**
 * Builds an example of an object from the examples of its members. Members without an example get a value that their
 * schema allows. Returns undefined if a required member has neither an example nor such a value.
 */
export function exampleOf({ properties = {}, required = [] }: Schema): object | undefined {
  const members = Object.entries(properties).map(([name, member]): [string, unknown] => [name, sampleOf(member)])
  const known = members.filter(([, value]) => value !== undefined)
  return required.every((name) => known.some(([field]) => field === name)) ? Object.fromEntries(known) : undefined
}

/**
 * Returns a valid value for a schema: preferably its first example, then its default; undefined if none can be derived.
 */
export function sampleOf(schema: Schema): unknown {
  const { examples, enum: allowed, const: only, anyOf, items } = schema
  const [type] = [schema.type].flat()
  if (Array.isArray(examples)) return examples[0]
  if (schema.default !== undefined) return schema.default
  if (Array.isArray(allowed)) return allowed[0]
  if (only !== undefined) return only
  if (Array.isArray(anyOf)) return sampleOf(anyOf[0])
  if (type === 'array') return listOf(items)
  if (type === 'object') return exampleOf(schema)
  if (type === 'boolean') return true
  if (type === 'number' || type === 'integer') return anyNumber(schema)
  return type === 'string' ? anyText(schema) : undefined
}

function listOf(items: Schema | undefined): unknown[] {
  const item = items && sampleOf(items)
  return item === undefined ? [] : [item]
}

function anyNumber({ minimum, maximum }: Schema): number {
  return (minimum as number | undefined) ?? Math.min(1, (maximum as number | undefined) ?? 1)
}

function anyText({ format, pattern, minLength = 0, maxLength = 300 }: Schema): string | undefined {
  const text = byFormat[format as string] ?? 'text'.padEnd(minLength as number, '.').slice(0, maxLength as number)
  return pattern === undefined || new RegExp(pattern as string, 'u').test(text) ? text : undefined
}

/** Binary media types. */
const binary = /^application\/(octet-stream|pdf|vnd\.)/

/**
 * Adds an example, where possible, to each media type that has none, so that tools need not generate one. Skips binary
 * types.
 */
export function withExamples<T extends { components: Record<string, Record<string, unknown>> }>(document: T): T {
  const schemas = (document.components.schemas ?? {}) as Record<string, Schema>
  const resolved = (schema: Schema): Schema => {
    const name = /^#\/components\/schemas\/(.+)$/.exec(String(schema.$ref))?.[1]
    if (name !== undefined) return schemas[name] as Schema
    if (Array.isArray(schema.anyOf)) return resolved(schema.anyOf[0])
    return schema.items ? { ...schema, items: resolved(schema.items) } : schema
  }
  const media = ([type, content]: [string, Content[string]]): [string, Content[string]] => {
    if (binary.test(type) || content.example !== undefined || content.examples !== undefined) return [type, content]
    const example = content.schema && sampleOf(resolved(content.schema))
    return [type, example === undefined ? content : { ...content, example }]
  }
  const visit = (value: unknown, key = ''): unknown => {
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map((inner) => visit(inner))
    if (key === 'content') return Object.fromEntries(Object.entries(value as Content).map(media))
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, visit(inner, name)]))
  }
  const { components, ...rest } = document
  const responses = visit(components.responses)
  return { ...(visit(rest) as T), components: { ...components, responses } }
}
