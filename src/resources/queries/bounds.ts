import type { TObject, TSchema } from 'typebox'
import { capital } from '../../openapi/schemas.ts'
import { columnType, kindOf } from '../column-types.ts'

/**
 * The query parameter for one bound of a range: `minX` or `maxX` for numbers, `xAfter` or `xBefore` for dates and
 * instants.
 */
interface Bound {
  name: string
  field: string
  op: '>=' | '<=' | '>' | '<'
  description: string
}

/** Returns the two parameters that bound a field: `minX` and `maxX` for numbers, otherwise `xAfter` and `xBefore`. */
export function boundsOf(field: string, schema: TSchema | undefined): Bound[] {
  const capitalized = capital(field)
  const kind = schema && kindOf(schema)
  if (kind && columnType(kind).range?.(schema) === 'numeric') {
    return [
      { name: `min${capitalized}`, field, op: '>=', description: `The minimum ${field}` },
      { name: `max${capitalized}`, field, op: '<=', description: `The maximum ${field}` },
    ]
  }
  // `updatedAt` becomes `updatedAfter`, not `updatedAtAfter`.
  const stem = field.replace(/(?<=.)(At|On)$/, '')
  return [
    { name: `${stem}After`, field, op: '>', description: `Only items whose ${field} is after this` },
    { name: `${stem}Before`, field, op: '<', description: `Only items whose ${field} is before this` },
  ]
}

const commonParameters = ['limit', 'cursor', 'sort', 'fields', 'q', 'updatedAfter']

/** The parts of a declaration that determine the names of a list's query parameters. */
interface QueryFields {
  body: TObject
  filters?: readonly string[]
  ranges?: readonly string[]
}

/**
 * Returns the names of a list's query parameters, except `or`, `expand`, and those with operators or on related rows.
 */
export function queryNames(rules: QueryFields): string[] {
  const { body, filters = [], ranges = [] } = rules
  const bounds = ranges.flatMap((field) => boundsOf(field, body.properties[field]).map(({ name }) => name))
  return [...commonParameters, ...filters, ...bounds]
}
