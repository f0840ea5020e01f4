// The errors in the options `computed` and `derived` of one resource.

import { types } from 'node:util'
import type { TObject, TSchema } from 'typebox'
import { nearest } from '../../http/nearest.ts'
import type { IdType } from '../../storage/ids.ts'
import { type ColumnKind, kindOf } from '../column-types.ts'
import { checkCondition } from '../conditions/conditions.ts'
import { decimalFieldErrors } from '../decimal-fields.ts'
import { refsOf } from '../relations/condition-relations.ts'
import { type ComputedDeclaration, ownConditionFields } from './computed-fields.ts'

const listNames = ['filters', 'ranges', 'search', 'sorts', 'unique'] as const

interface Declared extends ComputedDeclaration, Partial<Record<(typeof listNames)[number], readonly unknown[]>> {
  body: TObject
  ids?: IdType | undefined
  access?: unknown
}

const forms = "{ when: condition }, { sum: 'lines.amount', as: Decimal(12, 2) } or { count: 'lines' }"

/** Returns the errors in `computed` and `derived`, except errors that concern other resources. */
export function computedErrors(declared: Declared): string[] {
  const { body, computed = {}, derived = {} } = declared
  if (!isObject(computed)) return [`computed must be an object of fields, each ${forms}`]
  if (!isObject(derived)) return ['derived must be an object of fields, each { body, from }']
  const names = [...Object.keys(computed), ...Object.keys(derived)]
  const taken = names.filter((name, at) => name in body.properties || names.indexOf(name) !== at)
  return [
    ...taken.map((name) => `the computed field ${name} has the name of another field: rename one`),
    ...Object.entries(computed).flatMap(([name, option]) => optionErrors(name, option, declared)),
    ...Object.entries(derived).flatMap(([name, option]) => derivedErrors(name, option)),
    ...listNames.flatMap((list) => listedErrors(list, declared)),
  ]
}

/**
 * Returns the errors in one of the declaration's lists of fields: `unique` cannot include computed fields, and no list
 * can include derived fields.
 */
function listedErrors(list: (typeof listNames)[number], declared: Declared): string[] {
  const { computed = {}, derived = {} } = declared
  return (declared[list] ?? []).flat().flatMap((field) => {
    const name = String(field)
    if (Object.hasOwn(derived, name)) return [`${list} cannot include ${name}: it is derived`]
    return list === 'unique' && Object.hasOwn(computed, name) ? [`unique cannot include ${name}: it is computed`] : []
  })
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const members = ['when', 'sum', 'count', 'as']

function optionErrors(name: string, option: unknown, declared: Declared): string[] {
  const given = isObject(option) ? Object.keys(option) : []
  const unknown = given.filter((member) => !members.includes(member))
  if (unknown.length > 0) {
    return unknown.map((member) => {
      const suggestion = nearest(member, members)
      return `computed.${name} has no option ${member}: ${suggestion ? `did you mean ${suggestion}?` : `use ${forms}`}`
    })
  }
  const kinds = given.filter((member) => member !== 'as')
  if (!isObject(option) || kinds.length !== 1) return [`computed.${name} must be one of ${forms}`]
  if (kinds[0] === 'when') return whenErrors(name, option.when, declared)
  if (kinds[0] === 'count') {
    const isName = typeof option.count === 'string' && /^\w+$/.test(option.count) && !('as' in option)
    return isName ? [] : [`computed.${name}: count must be the name of a relation, such as { count: 'lines' }`]
  }
  return sumErrors(name, option)
}

function sumErrors(name: string, { sum, as }: Record<string, unknown>): string[] {
  if (typeof sum !== 'string' || !/^\w+\.\w+$/.test(sum)) {
    return [`computed.${name}: sum must be a relation and a field of its rows, such as 'lines.amount'`]
  }
  const kind = isObject(as) ? kindOf(as as TSchema) : undefined
  if (kind === 'decimal') return decimalFieldErrors(name, as as TSchema)
  return kind === 'integer'
    ? []
    : [`computed.${name}: as must be Decimal(precision, scale), Money(currency) or Type.Integer()`]
}

/** Conditions cannot name related rows, because an ETag contains only the revision of the row itself. */
const relationRefusal =
  'is a relation, and the ETag of a row would not change with the related row: name fields of the row'

function whenErrors(name: string, condition: unknown, { body, ids = 'integer', access }: Declared): string[] {
  const kinds = Object.entries(body.properties as Record<string, TSchema>).flatMap(([field, schema]) => {
    const kind = kindOf(schema)
    return kind ? [[field, kind] as const] : []
  })
  const declared = { body, ids, kinds: Object.fromEntries<ColumnKind>(kinds), folded: [], blank: [] }
  const fields = ownConditionFields(declared, access !== undefined)
  const refused = new Map([...refsOf(body).keys()].map((relation) => [relation, relationRefusal]))
  const errors = checkCondition(condition, fields, { refused })
  return errors.map((error) => `computed.${name}.when: ${error}`)
}

function derivedErrors(name: string, option: unknown): string[] {
  const { body, from, ...others } = isObject(option) ? option : {}
  const unknown = Object.keys(others).map((member) => `derived.${name} has no option ${member}: use body and from`)
  if (typeof from !== 'function') unknown.push(`derived.${name} needs from: (row, clock) => value`)
  else if (types.isAsyncFunction(from)) unknown.push(`derived.${name}: from must not be async: it only sees the row`)
  if (!isObject(body)) unknown.push(`derived.${name} needs body, the schema of its values`)
  return unknown
}
