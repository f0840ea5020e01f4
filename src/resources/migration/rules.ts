import { types } from 'node:util'
import type { TObject, TSchema } from 'typebox'
import { nearest } from '../../http/nearest.ts'
import { kindOf } from '../column-types.ts'
import { hasDefault, isValidValue } from '../constraints/defaults.ts'
import { refOf } from '../relations/ref.ts'
import type { MigrateOptions } from './options.ts'

const parts = ['renamed', 'fill', 'convert'] as const

type Part = Readonly<Record<string, unknown>>

interface Declared {
  /** The schema of stored bodies. */
  body: TObject
  migrate?: MigrateOptions
  unique: readonly string[]
}

/** Returns the errors in the `migrate` option. */
export function migrateErrors({ body, migrate = {}, unique }: Declared): string[] {
  if (typeof migrate !== 'object' || migrate === null || !parts.every((part) => isPart(migrate[part]))) {
    return ['migrate must be an object such as { renamed: {}, fill: {}, convert: {} }, each with fields of body']
  }
  const unknown = Object.keys(migrate).filter((name) => !(parts as readonly string[]).includes(name))
  const { renamed = {}, fill = {}, convert = {} } = migrate as Readonly<Record<(typeof parts)[number], Part>>
  const undeclared = parts.flatMap((part) => undeclaredFields(body, part, Object.keys(migrate[part] ?? {})))
  if (unknown.length > 0 || undeclared.length > 0) {
    return [...unknown.map((name) => `migrate has no ${name}: use ${parts.join(', ')}`), ...undeclared]
  }
  const both = (one: Part, other: Part) => Object.keys(one).filter((field) => Object.hasOwn(other, field))
  return [
    ...renamedErrors(body, renamed),
    ...Object.entries(fill).flatMap(([field, value]) => fillErrors(body, unique, field, value)),
    ...Object.entries(convert).flatMap(([field, run]) => convertErrors(body, field, run)),
    ...both(renamed, convert).map(
      (field) =>
        `migrate: ${field} is renamed and converted: rename it in one release, and convert it in the next, when every process has the new name`,
    ),
    ...both(fill, { ...renamed, ...convert }).map(
      (field) => `migrate: fill cannot include ${field}: its rows have values, which renamed or convert keeps`,
    ),
  ]
}

const isPart = (part: unknown) =>
  part === undefined || (typeof part === 'object' && part !== null && !Array.isArray(part))

function undeclaredFields({ properties }: TObject, part: string, fields: string[]): string[] {
  const names = Object.keys(properties)
  return fields
    .filter((field) => !Object.hasOwn(properties, field))
    .map((field) => {
      const suggestion = nearest(field, names)
      const hint = suggestion === undefined ? '' : `; did you mean ${suggestion}?`
      return `migrate: ${part} names '${field}', but body has no such field${hint}`
    })
}

function renamedErrors({ properties }: TObject, renamed: Part): string[] {
  const earlier = Object.values(renamed)
  return Object.entries(renamed).flatMap(([field, name], at) => {
    if (typeof name !== 'string' || !/^[a-z][a-zA-Z0-9]*$/.test(name)) {
      return [`migrate: renamed.${field} must be the earlier name of the field, such as 'number'`]
    }
    if (Object.hasOwn(properties, name))
      return [`migrate: renamed.${field} is '${name}', which is still a field of body`]
    return earlier.indexOf(name) < at ? [`migrate: renamed gives '${name}' to two fields`] : []
  })
}

function fillErrors({ properties }: TObject, unique: readonly string[], field: string, value: unknown): string[] {
  const schema = properties[field] as TSchema
  if (hasDefault(schema)) return [`migrate: fill cannot include ${field}: existing rows get the default of its schema`]
  if (types.isAsyncFunction(value)) return [`migrate: the function of fill.${field} must not be async`]
  if (typeof value === 'function') return []
  if (unique.includes(field)) return [`migrate: fill.${field} must be a function: the field is unique`]
  if (refOf(schema)) return [`migrate: fill.${field} must be a function: the field is a reference`]
  return isValidValue(schema, value) ? [] : [`migrate: the value of fill.${field} is not valid for its type`]
}

function convertErrors({ properties }: TObject, field: string, run: unknown): string[] {
  if (typeof run !== 'function') return [`migrate: convert.${field} must be a function, such as (old) => String(old)`]
  if (types.isAsyncFunction(run)) return [`migrate: the function of convert.${field} must not be async`]
  const schema = properties[field] as TSchema
  if (refOf(schema) === undefined) return []
  const cure =
    kindOf(schema) === 'uuid'
      ? 'declare a reference with another name, and fill it'
      : 'convert it to an integer, and declare the reference in the next release'
  return [`migrate: convert cannot include ${field}: ${cure}`]
}
