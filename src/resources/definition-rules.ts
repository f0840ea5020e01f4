import type { TObject, TSchema } from 'typebox'
import { nearest } from '../http/nearest.ts'
import { columnType, type FieldList, kindOf } from './column-types.ts'
import type { ResourceOptions } from './declaration.ts'
import { defaultMistakes } from './defaults.ts'
import { queryNames } from './list-query.ts'
import { columnName, withStorageRules } from './table.ts'

const pathForm = /^\/[a-z][a-z0-9]*(-[a-z0-9]+)*$/
const nounForm = /^[a-z][a-z0-9]*([A-Z][a-z0-9]+)*$/
const fieldForm = /^[a-z][a-z0-9]*([A-Z][a-z0-9]+)*[A-Z]?$/
const operations = ['list', 'create', 'read', 'replace', 'patch', 'remove']

/** First path segments reserved for the service, and names used by its own scopes, tags and reports. */
const takenPaths = [
  ...['api', 'oauth', 'docs', 'problems', 'livez', 'readyz', 'metrics', 'health', 'login', 'logout', 'account'],
  ...['reports', 'webhooks', 'audit', 'admin', 'openid', 'activity', 'deliveries', 'meta'],
  // Its table would be `resource_tables`, where the service records declared tables.
  'tables',
]
const takenNouns = ['report', 'webhook']
const takenFields = ['id', 'revision', 'sharesSecond', 'createdAt', 'updatedAt', '_links', 'view']
const maxName = 40
/** PostgreSQL truncates index names at 63 bytes: `resource_<path>_<field>_key`. */
const maxTogether = 49

/** Every option of `collection()`. */
const optionNames = Object.keys({
  ...{ path: true, noun: true, operations: true, body: true, publicRead: true, filters: true, ranges: true },
  ...{ search: true, sorts: true, unique: true, listed: true, hides: true, scopes: true, links: true },
} satisfies Record<keyof ResourceOptions, true>)

/** All errors in the declaration of one resource. */
export function definitionErrors(options: ResourceOptions): string[] {
  const { path, noun, body } = options ?? {}
  if (typeof path !== 'string' || !pathForm.test(path) || path.length > maxName) {
    return [`collection: path must be one lower-case segment such as '/notes' or '/line-items', not ${shown(path)}`]
  }
  const wrong = [...unknownOptions(options), ...headMistakes(path, noun, options)]
  if (typeof body !== 'object' || (body as { type?: unknown })?.type !== 'object' || !body.properties) {
    wrong.push('body must be made by Type.Object()')
  } else {
    wrong.push(...fieldMistakes(body, path.length), ...listMistakes(options), ...queryMistakes(options))
    wrong.push(...defaultMistakes(withStorageRules(body), options.unique ?? []))
  }
  return wrong.map((mistake) => `${path}: ${mistake}`)
}

/** TypeScript reports unknown options in an object literal only, and JavaScript does not report them at all. */
const unknownOptions = (options: ResourceOptions): string[] =>
  Object.keys(options)
    .filter((name) => !optionNames.includes(name))
    .map((name) => {
      const meant = nearest(name, optionNames)
      const hint = meant === undefined ? `they are ${optionNames.join(', ')}` : `did you mean ${meant}?`
      return `collection() has no option ${name}: ${hint}`
    })

function headMistakes(path: string, noun: unknown, options: ResourceOptions): string[] {
  const wrong: string[] = []
  const name = path.slice(1)
  if (takenPaths.includes(name) || /^v\d+$/.test(name)) wrong.push('this path belongs to the service itself')
  if (typeof noun !== 'string' || !nounForm.test(noun) || noun.length > maxName) {
    wrong.push(`noun must be the singular in camelCase, such as 'note', not ${shown(noun)}`)
  } else if (takenNouns.includes(noun)) wrong.push(`the noun '${noun}' belongs to the service itself`)
  const unknown = (options.operations ?? []).filter((operation) => !operations.includes(operation))
  if (unknown.length > 0) wrong.push(`operations knows no ${unknown}, only ${operations.join(', ')}`)
  if (options.operations?.length === 0) wrong.push('operations must name one at least')
  if (options.publicRead && options.hides)
    wrong.push('hides cannot go with publicRead: caches would mix up the callers')
  for (const scope of Object.keys(options.scopes ?? {})) {
    if (!scope.startsWith(`${name}:`) || !/^[a-z0-9:-]+$/.test(scope)) {
      wrong.push(`scopes: '${scope}' must start with '${name}:' and have only a-z, 0-9, colons and hyphens`)
    }
  }
  return wrong
}

function fieldMistakes(body: TObject, pathLength: number): string[] {
  const wrong: string[] = []
  const names = Object.keys(body.properties)
  if (names.length === 0) wrong.push('body must have a field')
  for (const name of names) {
    const schema = body.properties[name] as TSchema
    if (takenFields.includes(name) || name in Object.prototype) wrong.push(`the field name ${name} is taken`)
    else if (!fieldForm.test(name) || columnName(name).length > maxName) {
      wrong.push(`the field name ${name} must be camelCase without two capitals in a row, ${maxName} letters at most`)
    } else if (kindOf(schema) === undefined) {
      const types = 'strings, integers, numbers, booleans, enumerations of them, objects and arrays can'
      wrong.push(`the field ${name} has a type that cannot be kept: ${types}; for absent values use Type.Optional()`)
    }
    if (pathLength + columnName(name).length > maxTogether) {
      wrong.push(`the path and the field name ${name} are too long together: ${maxTogether} letters at most`)
    }
    if (name.endsWith('Key') && names.includes(name.slice(0, -3))) {
      wrong.push(`the field name ${name} is taken by what the field ${name.slice(0, -3)} is compared by`)
    }
  }
  return wrong
}

/** Why a field of another type cannot be in a list. */
const reasons: Record<FieldList, string> = {
  filters: 'objects and arrays cannot be compared',
  ranges: 'it is no number, day or instant',
  search: 'it is no free text',
  sorts: 'it has no order',
  unique: 'its values cannot be unique',
}

function listMistakes(options: ResourceOptions): string[] {
  const { body, hides } = options
  const wrong: string[] = []
  const known = (list: string, field: string) => {
    if (Object.hasOwn(body.properties, field)) return true
    wrong.push(`${list} names '${field}', and body has no such field`)
    return false
  }
  for (const [list, because] of Object.entries(reasons) as [FieldList, string][]) {
    for (const field of options[list] ?? []) {
      if (!known(list, field)) continue
      const schema = body.properties[field] as TSchema & { maxLength?: number; format?: string }
      const kind = kindOf(schema)
      if (kind === undefined) continue
      const { lists, range, folded, maxIndexed } = columnType(kind)
      if (!lists.includes(list) || (list === 'ranges' && range?.(schema) === undefined))
        wrong.push(`${list} cannot take ${field}: ${because}`)
      if (list === 'sorts' && !hasPlace(options, field, folded)) {
        wrong.push(
          `sorts cannot take ${field}: it is optional, and only text that is not unique has a place when it is absent`,
        )
      }
      const longest = maxIndexed?.(schema) ?? Number.POSITIVE_INFINITY
      if (list !== 'search' && (schema.maxLength ?? Infinity) > longest) {
        wrong.push(`${list} cannot take ${field} without a maxLength of ${longest} at most: it needs an index`)
      }
    }
  }
  for (const field of hides?.fields ?? []) {
    if (known('hides.fields', field)) wrong.push(...betrayals(options, field))
  }
  for (const field of options.listed ?? []) {
    if (!['id', 'createdAt', 'updatedAt'].includes(field)) known('listed', field)
  }
  return wrong
}

/** Whether every row has a value to sort by: absent text sorts as empty text. */
const hasPlace = ({ body, unique = [] }: ResourceOptions, field: string, folded = false): boolean =>
  Boolean(body.required?.includes(field)) || (folded && !unique.includes(field as never))

/** Whether lists can be sorted by a field of this schema. */
export function canSort(schema: TSchema): boolean {
  const kind = kindOf(schema)
  return kind !== undefined && columnType(kind).lists.includes('sorts')
}

/** Filtering by a hidden field would reveal its value, and lists do not check the caller's rights. */
function betrayals(options: ResourceOptions, field: string): string[] {
  const lists = ['filters', 'ranges', 'search', 'sorts', 'listed'] as const
  const telling = lists.filter((list) => options[list]?.includes(field as never))
  return telling.map((list) => `${list} cannot take ${field}: hides keeps it from some callers`)
}

/** Two parameters of a list must not have the same name. */
function queryMistakes(options: ResourceOptions): string[] {
  const names = queryNames(options)
  const twice = names.filter((name, at) => names.indexOf(name) !== at)
  return twice.map((name) => `filters and ranges make the query parameter ${name} twice, or it is one of every list`)
}

const shown = (value: unknown) => (typeof value === 'string' ? `'${value.slice(0, 60)}'` : String(typeof value))
