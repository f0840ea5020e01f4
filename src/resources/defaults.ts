import type { TObject, TSchema } from 'typebox'
import { inputValidator } from '../http/policies/body-parsing.ts'
import { amended } from './amended.ts'

/** The parts of a JSON Schema that hold defaults. */
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

const hasDefault = (schema: Shape): boolean => Object.hasOwn(schema, 'default')

/** Whether a schema or one inside it, in objects and arrays, has a default. */
const holdsDefault = ({ properties = {}, items, ...schema }: Shape): boolean =>
  hasDefault(schema) || [...Object.values(properties), ...(isObject(items) ? [items] : [])].some(holdsDefault)

/** A value with the defaults of its absent parts, at any depth; undefined where it is absent and has no default. */
function completed(schema: Shape, given: unknown): unknown {
  const value = given === undefined ? structuredClone(schema.default) : given
  const { properties = {}, items } = schema
  if (Array.isArray(value)) {
    return isObject(items) && holdsDefault(items) ? value.map((item) => completed(items, item)) : value
  }
  if (!isObject(value)) return value
  const whole = { ...value }
  for (const [name, property] of Object.entries(properties)) {
    if (!holdsDefault(property)) continue
    const member = completed(property, Object.hasOwn(value, name) ? value[name] : undefined)
    if (member !== undefined) whole[name] = member
  }
  return whole
}

/** Returns a function that fills in defaults for absent fields; the input is not changed. */
export function completerOf(body: TObject): (given: Values) => Values {
  return holdsDefault(body as Shape) ? (given) => completed(body as Shape, given) as Values : (given) => given
}

/** The value of each field with a default where a body omits it. */
export function defaultsOf(body: TObject): Values {
  const fields = Object.entries(body.properties as Record<string, Shape>).filter(([, schema]) => hasDefault(schema))
  return Object.fromEntries(fields.map(([name, schema]) => [name, completed(schema, undefined)]))
}

/** The schema of a body as clients send it: properties with a default are optional, at any depth. */
export function inputOf<T extends TSchema>(schema: T): T {
  const { required = [], properties = {}, items } = schema as Shape
  if (!holdsDefault({ properties, ...(items && { items }) })) return schema
  const inside = Object.entries(properties).map(([name, property]) => [name, inputOf(property as TSchema)])
  return amended(schema, {
    ...(Object.hasOwn(schema, 'properties') && {
      required: required.filter((name) => !hasDefault(properties[name] ?? {})),
      properties: Object.fromEntries(inside),
    }),
    ...(isObject(items) && { items: inputOf(items as TSchema) }),
  })
}

/** Errors in the defaults of a body, which must be values that clients could send. */
export function defaultMistakes(body: TObject, unique: readonly string[]): string[] {
  return Object.entries(body.properties as Record<string, TSchema>).flatMap(([field, schema]) => {
    if (unique.includes(field) && hasDefault(schema as Shape)) {
      return [`unique cannot take ${field}: its default would be the value of several rows`]
    }
    return wrongDefaults(schema, field).map((place) => `the default of ${place} is no value that it can have`)
  })
}

/** The paths of defaults that their own schema rejects. */
function wrongDefaults(schema: TSchema, place: string): string[] {
  const { properties = {}, items, ...shape } = schema as Shape
  const inside = Object.entries(properties).flatMap(([name, one]) => wrongDefaults(one as TSchema, `${place}.${name}`))
  const inItems = isObject(items) ? wrongDefaults(items as TSchema, `${place}[]`) : []
  return [...(hasDefault(shape) && !isStorable(schema) ? [place] : []), ...inside, ...inItems]
}

/** Whether a default is valid under its schema, and stored unchanged. */
function isStorable(schema: TSchema): boolean {
  const value = (schema as Shape).default
  if (typeof value === 'function') return false
  const sent = { value: completed(schema as Shape, undefined) }
  const result = inputValidator(
    { type: 'object', properties: { value: schema }, required: ['value'] } as TSchema,
    'body',
  )(sent)
  return 'value' in result && (typeof value !== 'string' || sent.value === value)
}
