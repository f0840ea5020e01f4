import type { TSchema } from 'typebox'
import type { FieldList } from '../column-type.ts'
import { columnType, kindOf } from '../column-types.ts'
import type { ResourceOptions } from '../resource-options.ts'
import { queryNames } from './bounds.ts'

/** The reasons, for error messages, why a field's type is not allowed in each list. */
const reasons: Record<FieldList, string> = {
  filters: 'objects and arrays cannot be compared',
  ranges: 'it is not a number, date or instant',
  search: 'it is not free text',
  sorts: 'its values have no order',
  unique: 'its values cannot be unique',
}

export function listErrors(options: ResourceOptions): string[] {
  const { body, hides } = options
  const errors: string[] = []
  const isDeclared = (list: string, field: string) => {
    if (Object.hasOwn(body.properties, field)) return true
    errors.push(`${list} names '${field}', but body has no such field`)
    return false
  }
  for (const [list, reason] of Object.entries(reasons) as [FieldList, string][]) {
    for (const field of [options[list] ?? []].flat(2)) {
      if (!isDeclared(list, field)) continue
      const schema = body.properties[field] as TSchema & { maxLength?: number; format?: string }
      const kind = kindOf(schema)
      if (kind === undefined) continue
      const { lists, range, folded, maxIndexed } = columnType(kind)
      if (!lists.includes(list) || (list === 'ranges' && range?.(schema) === undefined))
        errors.push(`${list} cannot include ${field}: ${reason}`)
      if (list === 'sorts' && !hasSortValue(options, field, folded)) {
        errors.push(`sorts cannot include ${field}: it is optional; use required fields, or text that is not unique`)
      }
      const maxLength = maxIndexed?.(schema) ?? Number.POSITIVE_INFINITY
      if (list !== 'search' && (schema.maxLength ?? Infinity) > maxLength) {
        errors.push(`${list} cannot include ${field} without a maxLength of at most ${maxLength}: it needs an index`)
      }
    }
  }
  for (const field of hides?.fields ?? []) {
    if (isDeclared('hides.fields', field)) errors.push(...hiddenFieldErrors(options, field))
  }
  for (const field of options.listed ?? []) {
    if (!['id', 'createdAt', 'updatedAt'].includes(field)) isDeclared('listed', field)
  }
  return errors
}

/** Returns true if every row has a value to sort by; absent text sorts as an empty string. */
const hasSortValue = ({ body, unique = [] }: ResourceOptions, field: string, folded = false): boolean =>
  Boolean(body.required?.includes(field)) || (folded && !unique.flat().includes(field))

/** Returns true if lists can be sorted by a field with this schema. */
export function canSort(schema: TSchema): boolean {
  const kind = kindOf(schema)
  return kind !== undefined && columnType(kind).lists.includes('sorts')
}

/** Returns true if lists can be filtered by a field with this schema. */
export function canFilter(schema: TSchema & { maxLength?: number; format?: string }): boolean {
  const kind = kindOf(schema)
  if (kind === undefined || !columnType(kind).lists.includes('filters')) return false
  return (
    (schema.maxLength ?? Number.POSITIVE_INFINITY) <=
    (columnType(kind).maxIndexed?.(schema) ?? Number.POSITIVE_INFINITY)
  )
}

/**
 * Returns the errors for a field that is hidden from some callers. The lists of filters, sorts and so on apply to all
 * callers, so naming the field in one would reveal its value.
 */
function hiddenFieldErrors(options: ResourceOptions, field: string): string[] {
  const lists = ['filters', 'ranges', 'search', 'sorts', 'listed'] as const
  const revealing = lists.filter((list) => options[list]?.includes(field as never))
  return revealing.map((list) => `${list} cannot include ${field}: it is hidden from some callers`)
}

/** Returns an error for each name that two query parameters of a list share. */
export function queryErrors(options: ResourceOptions): string[] {
  const names = queryNames(options)
  const twice = names.filter((name, at) => names.indexOf(name) !== at)
  return twice.map(
    (name) => `filters and ranges define the query parameter ${name} twice, or it is a parameter of every list`,
  )
}
