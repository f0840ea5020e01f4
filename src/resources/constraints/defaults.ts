import type { TObject, TSchema } from 'typebox'
import { inputValidator } from '../../http/policies/body-parsing.ts'
import { amended } from '../column-types.ts'

/** The parts of a JSON Schema that may contain defaults. */
interface Shape {
  type?: unknown
  default?: unknown
  required?: readonly string[]
  properties?: Record<string, Shape>
  items?: Shape
}

type Values = Record<string, unknown>

const isObject = (value: unknown): value is Values =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns true if a schema has a default of its own. */
export const hasDefault = (schema: Shape): boolean => Object.hasOwn(schema, 'default')

/** Returns true if a schema, or a schema nested in its properties or items, has a default. */
const containsDefault = ({ properties = {}, items, ...schema }: Shape): boolean =>
  hasDefault(schema) || [...Object.values(properties), ...(isObject(items) ? [items] : [])].some(containsDefault)

/**
 * Fills in defaults for absent parts of a value, at any depth; returns undefined if the value is absent and has no
 * default.
 */
function withDefaults(schema: Shape, input: unknown): unknown {
  const value = input === undefined ? structuredClone(schema.default) : input
  const { properties = {}, items } = schema
  if (Array.isArray(value)) {
    return isObject(items) && containsDefault(items) ? value.map((item) => withDefaults(items, item)) : value
  }
  if (!isObject(value)) return value
  const whole = { ...value }
  for (const [name, property] of Object.entries(properties)) {
    if (!containsDefault(property)) continue
    const member = withDefaults(property, Object.hasOwn(value, name) ? value[name] : undefined)
    if (member !== undefined) whole[name] = member
  }
  return whole
}

/** Returns a function that fills in a body's defaults, at any depth. It does not modify its argument. */
export function defaultFiller(body: TObject): (input: Values) => Values {
  return containsDefault(body as Shape) ? (input) => withDefaults(body as Shape, input) as Values : (input) => input
}

/** Returns the default of each field that has one, including defaults nested in the field. */
export function defaultsOf(body: TObject): Values {
  const fields = Object.entries(body.properties as Record<string, Shape>).filter(([, schema]) => hasDefault(schema))
  return Object.fromEntries(fields.map(([name, schema]) => [name, withDefaults(schema, undefined)]))
}

/** Returns the schema of a body as clients send it: properties with a default are optional, at any depth. */
export function inputOf<T extends TSchema>(schema: T): T {
  const { required = [], properties = {}, items } = schema as Shape
  if (!containsDefault({ properties, ...(items && { items }) })) return schema
  const inside = Object.entries(properties).map(([name, property]) => [name, inputOf(property as TSchema)])
  return amended(schema, {
    ...(Object.hasOwn(schema, 'properties') && {
      required: required.filter((name) => !hasDefault(properties[name] ?? {})),
      properties: Object.fromEntries(inside),
    }),
    ...(isObject(items) && { items: inputOf(items as TSchema) }),
  })
}

/**
 * Returns the errors in a body's defaults: each default must be a value that a client could send, and unique fields
 * cannot have one.
 */
export function defaultErrors(body: TObject, unique: readonly string[]): string[] {
  return Object.entries(body.properties as Record<string, TSchema>).flatMap(([field, schema]) => {
    if (unique.includes(field) && hasDefault(schema as Shape)) {
      return [`unique cannot include ${field}: several rows would have its default`]
    }
    return invalidDefaults(schema, field).map((path) => `the default of ${path} is not valid for its type`)
  })
}

/** Returns the paths of defaults that their own schema rejects. */
function invalidDefaults(schema: TSchema, path: string): string[] {
  const { properties = {}, items, ...shape } = schema as Shape
  const inside = Object.entries(properties).flatMap(([name, property]) =>
    invalidDefaults(property as TSchema, `${path}.${name}`),
  )
  const inItems = isObject(items) ? invalidDefaults(items as TSchema, `${path}[]`) : []
  return [...(hasDefault(shape) && !isStorable(schema) ? [path] : []), ...inside, ...inItems]
}

const isStorable = (schema: TSchema): boolean => isValidValue(schema, (schema as Shape).default)

/** Returns true if a value is valid against its schema and validation does not convert it. */
export function isValidValue(schema: TSchema, value: unknown): boolean {
  if (typeof value === 'function') return false
  const sent = { value: withDefaults(schema as Shape, value) }
  const before = JSON.stringify(sent)
  const result = inputValidator(
    { type: 'object', properties: { value: schema }, required: ['value'] } as TSchema,
    'body',
  )(sent)
  return 'value' in result && JSON.stringify(sent) === before
}
