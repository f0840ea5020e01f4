import type { TObject, TSchema } from 'typebox'
import { nearest } from '../http/nearest.ts'
import { accessErrors } from './access/declared.ts'
import { kindOf } from './column-types.ts'
import { shownOf } from './computed/computed-fields.ts'
import { computedErrors } from './computed/option-errors.ts'
import { creationErrors } from './constraints/creation.ts'
import { defaultErrors } from './constraints/defaults.ts'
import { keptFieldErrors } from './constraints/kept-fields.ts'
import { lockErrors } from './constraints/lock-rules.ts'
import { ruleErrors } from './constraints/rules.ts'
import { tupleErrors, uniqueFields } from './constraints/unique.ts'
import { decimalFieldErrors } from './decimal-fields.ts'
import { keepTimeErrors } from './deleted/keep-time.ts'
import { fileErrors } from './files/file-field.ts'
import { idTypes } from './id-types.ts'
import { overlayErrors } from './migration/overlay-rules.ts'
import { migrateErrors } from './migration/rules.ts'
import { listErrors, queryErrors } from './queries/list-rules.ts'
import { referenceErrors } from './relations/reference-rules.ts'
import type { ResourceOptions } from './resource-options.ts'
import { columnName, withStorageRules } from './table.ts'

const pathForm = /^\/[a-z][a-z0-9]*(-[a-z0-9]+)*$/
const nounForm = /^[a-z][a-z0-9]*([A-Z][a-z0-9]+)*$/
const fieldForm = /^[a-z][a-z0-9]*([A-Z][a-z0-9]+)*[A-Z]?$/
const operations = ['list', 'create', 'read', 'replace', 'patch', 'remove']

/** Path segments that the service uses itself, in paths, scopes, tags and reports. */
const reservedPaths = [
  ...['api', 'oauth', 'docs', 'problems', 'livez', 'readyz', 'metrics', 'health', 'login', 'logout', 'account'],
  ...['reports', 'webhooks', 'audit', 'admin', 'openid', 'activity', 'deliveries', 'meta'],
  // The table would be `resource_tables`, where the service records the declared tables.
  'tables',
]
const reservedNouns = ['report', 'webhook']
export const reservedFields = ['id', 'revision', 'sharesSecond', 'createdAt', 'updatedAt', '_links', 'view']
const maxNameLength = 40
/** Index names are `resource_<path>_<field>_key`, and PostgreSQL truncates them at 63 bytes. */
const maxPathAndFieldLength = 49

/** The options of `collection()`. */
const optionNames = Object.keys({
  ...{ path: true, noun: true, ids: true, operations: true, body: true, publicRead: true, filters: true, ranges: true },
  ...{ search: true, sorts: true, unique: true, listed: true, hides: true, scopes: true, links: true, access: true },
  ...{
    writeOnly: true,
    immutable: true,
    rules: true,
    set: true,
    defaults: true,
    locked: true,
    computed: true,
    derived: true,
    migrate: true,
    table: true,
    columns: true,
    keepDeleted: true,
  },
} satisfies Record<keyof ResourceOptions, true>)

/** Returns the errors in the declaration of one resource. */
export function definitionErrors(declared: ResourceOptions): string[] {
  const { path, noun, body } = declared ?? {}
  if (typeof path !== 'string' || !pathForm.test(path) || path.length > maxNameLength) {
    return [`collection: path must be one lower-case segment such as '/notes' or '/line-items', not ${quoted(path)}`]
  }
  const wrongForms = formErrors(declared)
  // Stop here, because the other checks assume that these options have the right types.
  if (wrongForms.length > 0) return wrongForms.map((error) => `${path}: ${error}`)
  const errors = [
    ...unknownOptions(declared),
    ...nameErrors(path, noun, declared),
    ...idErrors(declared),
    ...keepTimeErrors(declared),
  ]
  const options = { ...declared, ids: hasKnownIds(declared) ? declared.ids : 'integer' } as ResourceOptions
  if (typeof body !== 'object' || (body as { type?: unknown })?.type !== 'object' || !body.properties) {
    errors.push('body must be created with Type.Object()')
  } else {
    const computed = computedErrors(options)
    // If computed fields have errors, lists are checked without them.
    const { shownBody } = shownOf(body, {}, computed.length > 0 ? {} : options)
    const shown = { ...options, body: shownBody }
    errors.push(...computed, ...fieldErrors(shownBody, path.length), ...listErrors(shown), ...queryErrors(shown))
    errors.push(...referenceErrors(shownBody, reservedFields), ...accessErrors(options))
    errors.push(...fileErrors(options))
    errors.push(...tupleErrors(body, options.unique ?? []), ...keptFieldErrors(options))
    errors.push(...ruleErrors(body, options.rules ?? []), ...lockErrors(options))
    const stored = { body: withStorageRules(body), unique: uniqueFields(options.unique) }
    errors.push(...defaultErrors(stored.body, stored.unique), ...creationErrors({ ...options, ...stored }))
    errors.push(
      ...migrateErrors({ ...options, ...stored }),
      ...overlayErrors(options, Object.keys(shownBody.properties)),
    )
  }
  return errors.map((error) => `${path}: ${error}`)
}

const arrays = [
  ...(['operations', 'filters', 'ranges', 'search', 'sorts', 'unique', 'listed'] as const),
  ...(['writeOnly', 'immutable'] as const),
] as const
const objects = ['hides', 'set', 'defaults', 'scopes'] as const

/** Returns the errors for options that must be arrays or objects but are not. TypeScript reports the same errors. */
const formErrors = (options: ResourceOptions): string[] => [
  ...arrays
    .filter((name) => options[name] !== undefined && !Array.isArray(options[name]))
    .map((name) => `${name} must be an array, not ${quoted(options[name])}`),
  ...objects
    .filter(
      (name) => options[name] !== undefined && Object.prototype.toString.call(options[name]) !== '[object Object]',
    )
    .map((name) => `${name} must be an object, not ${Array.isArray(options[name]) ? 'array' : quoted(options[name])}`),
]

/**
 * Returns the errors for unknown options. TypeScript reports these only in object literals, and JavaScript never does.
 */
const unknownOptions = (options: ResourceOptions): string[] =>
  Object.keys(options)
    .filter((name) => !optionNames.includes(name))
    .map((name) => {
      const suggestion = nearest(name, optionNames)
      const hint = suggestion === undefined ? `use one of ${optionNames.join(', ')}` : `did you mean ${suggestion}?`
      return `collection() has no option ${name}: ${hint}`
    })

function nameErrors(path: string, noun: unknown, options: ResourceOptions): string[] {
  const errors: string[] = []
  const name = path.slice(1)
  if (reservedPaths.includes(name) || /^v\d+$/.test(name)) errors.push('this path is reserved for the service itself')
  if (typeof noun !== 'string' || !nounForm.test(noun) || noun.length > maxNameLength) {
    errors.push(`noun must be the singular in camelCase, such as 'note', not ${quoted(noun)}`)
  } else if (reservedNouns.includes(noun)) errors.push(`the noun '${noun}' is reserved for the service itself`)
  const unknown = (options.operations ?? []).filter((operation) => !operations.includes(operation))
  if (unknown.length > 0) errors.push(`operations cannot include ${unknown.join(', ')}; use ${operations.join(', ')}`)
  if (options.operations?.length === 0) errors.push('operations must name at least one')
  if (options.publicRead && options.hides)
    errors.push('hides cannot be combined with publicRead: shared caches cannot tell callers apart')
  for (const scope of Object.keys(options.scopes ?? {})) {
    if (!scope.startsWith(`${name}:`) || !/^[a-z0-9:-]+$/.test(scope)) {
      errors.push(`scopes: '${scope}' must start with '${name}:' and contain only a-z, 0-9, colons and hyphens`)
    }
  }
  return errors
}

const hasKnownIds = ({ ids = 'integer' }: ResourceOptions) => Object.hasOwn(idTypes, String(ids))

const idErrors = (options: ResourceOptions): string[] =>
  hasKnownIds(options) ? [] : [`ids must be one of ${Object.keys(idTypes).join(', ')}, not ${quoted(options.ids)}`]

/** Returns the error in a field's name; undefined if the name is valid. */
export function fieldNameError(name: unknown): string | undefined {
  if (typeof name !== 'string') return `the field name must be text, not ${quoted(name)}`
  if (reservedFields.includes(name) || name in Object.prototype) return `the field name ${name} is reserved`
  if (fieldForm.test(name) && columnName(name).length <= maxNameLength) return undefined
  return `the field name ${name} must be camelCase without two capitals in a row, and at most ${maxNameLength} characters`
}

function fieldErrors(body: TObject, pathLength: number): string[] {
  const errors: string[] = []
  const names = Object.keys(body.properties)
  if (names.length === 0) errors.push('body must have at least one field')
  for (const name of names) {
    const schema = body.properties[name] as TSchema
    const misnamed = fieldNameError(name)
    if (misnamed !== undefined) errors.push(misnamed)
    else if (kindOf(schema) === undefined) {
      const types = 'use strings, integers, numbers, booleans, enums of these, objects or arrays'
      errors.push(`the field ${name} has a type that cannot be stored: ${types}; for absent values use Type.Optional()`)
    }
    errors.push(...decimalFieldErrors(name, schema))
    if (pathLength + columnName(name).length > maxPathAndFieldLength) {
      errors.push(
        `the path and the field name ${name} are too long together: at most ${maxPathAndFieldLength} characters`,
      )
    }
    if (name.endsWith('Key') && names.includes(name.slice(0, -3))) {
      errors.push(`the field name ${name} is reserved for the case-folded text of the field ${name.slice(0, -3)}`)
    }
  }
  return errors
}

const quoted = (value: unknown) => (typeof value === 'string' ? `'${value.slice(0, 60)}'` : String(typeof value))
