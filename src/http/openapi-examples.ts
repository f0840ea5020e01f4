import type { Schema } from './openapi-schemas.ts'

const instant = '2026-03-01T12:00:00.000Z'
const byFormat: Record<string, string> = {
  'date-time': instant,
  date: instant.slice(0, 10),
  email: 'ada@example.com',
  uri: 'https://client.example/',
}

/**
 * An example of an object, made of the examples of its members; those without one get a value that their schema allows.
 * Undefined when a member that must be there has neither.
 */
export function exampleOf({ properties = {}, required = [] }: Schema): object | undefined {
  const members = Object.entries(properties).map(([name, member]): [string, unknown] => [name, anyValue(member)])
  const known = members.filter(([, value]) => value !== undefined)
  return required.every((name) => known.some(([field]) => field === name)) ? Object.fromEntries(known) : undefined
}

function anyValue(schema: Schema): unknown {
  const { examples, enum: allowed, const: only, anyOf, type, items } = schema
  if (Array.isArray(examples)) return examples[0]
  if (Array.isArray(allowed)) return allowed[0]
  if (only !== undefined) return only
  if (Array.isArray(anyOf)) return anyValue(anyOf[0])
  if (type === 'array') return listOf(items)
  if (type === 'object') return exampleOf(schema)
  if (type === 'boolean') return true
  return type === 'string' ? anyText(schema) : anyNumber(schema)
}

function listOf(items: Schema | undefined): unknown[] {
  const item = items && anyValue(items)
  return item === undefined ? [] : [item]
}

function anyNumber({ minimum, maximum }: Schema): number {
  return (minimum as number | undefined) ?? Math.min(1, (maximum as number | undefined) ?? 1)
}

function anyText({ format, pattern, minLength = 0, maxLength = 300 }: Schema): string | undefined {
  const text = byFormat[format as string] ?? 'text'.padEnd(minLength as number, '.').slice(0, maxLength as number)
  return pattern === undefined || new RegExp(pattern as string, 'u').test(text) ? text : undefined
}
