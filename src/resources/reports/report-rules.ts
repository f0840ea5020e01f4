import type { TObject } from 'typebox'
import { nearest } from '../../http/nearest.ts'
import type { ConditionFields } from '../conditions/fields.ts'
import { defaultErrors } from '../constraints/defaults.ts'
import { decimalFieldErrors } from '../decimal-fields.ts'
import { withStorageRules } from '../table.ts'
import type { ReportOptions } from './options.ts'
import {
  aggregateColumn,
  countColumn,
  datePartColumn,
  groupColumn,
  type ResourceGroupedColumn,
} from './report-columns.ts'

const nameForm = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/
const columnForm = /^[a-z][A-Za-z0-9]{0,39}$/
const maxColumns = 50

const optionNames = Object.keys({
  ...{ name: true, title: true, parameters: true, where: true, group: true, show: true },
} satisfies Record<keyof ReportOptions, true>)

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns the errors in the options of `report()`, except errors in its columns. */
export function optionErrors(options: ReportOptions): string[] {
  const { name, title, parameters, where } = options
  const unknown = Object.keys(options).filter((option) => !optionNames.includes(option))
  return [
    ...(typeof name === 'string' && nameForm.test(name) && name.length <= 60
      ? []
      : ["name must be lower-case, such as 'revenue' or 'revenue-by-month', and have at most 60 characters"]),
    ...(title === undefined || typeof title === 'string' ? [] : ['title must be text']),
    ...unknown.map((option) => `report() has no option ${option}: ${hint(option, optionNames)}`),
    ...(parameters === undefined ? [] : parameterErrors(parameters)),
    ...(where === undefined || typeof where === 'function'
      ? []
      : ['where must be a function that returns a condition, such as ({ from, to }) => ({ due: { from, to } })']),
  ]
}

function parameterErrors(parameters: TObject): string[] {
  if ((parameters as { type?: unknown })?.type !== 'object' || !isObject(parameters.properties)) {
    return ['parameters must be created with Type.Object()']
  }
  const decimals = Object.entries(parameters.properties).flatMap(([name, schema]) => decimalFieldErrors(name, schema))
  return [...decimals, ...defaultErrors(withStorageRules(parameters), [])].map((error) => `parameters: ${error}`)
}

/** A resource's fields, and those that a report's columns cannot name. */
interface ReportFields {
  fields: ConditionFields
  /** Fields that no report may contain. */
  concealed: readonly string[]
  /** Computed conditions, which have no column. */
  conditions: readonly string[]
}

/** Reads the columns of `group` and `show`; also returns all errors. */
export function readColumns(
  { group = {}, show = {} }: Pick<ReportOptions, 'group' | 'show'>,
  fields: ReportFields,
): { columns: ResourceGroupedColumn[]; errors: string[] } {
  if (!isObject(group) || !isObject(show)) {
    return { columns: [], errors: ["group and show must be objects of columns, such as { month: { month: 'due' } }"] }
  }
  const columns: ResourceGroupedColumn[] = []
  const errors: string[] = []
  const read = (option: 'group' | 'show', name: string, value: unknown) => {
    const place = `${option}.${name}`
    if (!columnForm.test(name)) return void errors.push(`${place}: a column has a name in camelCase, such as 'total'`)
    const result = option === 'group' ? readGroup(name, value, fields) : readShown(name, value, fields)
    if ('error' in result) errors.push(`${place} ${result.error}`)
    else columns.push(result.column)
  }
  for (const [name, value] of Object.entries(group)) read('group', name, value)
  for (const [name, value] of Object.entries(show)) {
    if (Object.hasOwn(group, name)) errors.push(`group and show both have a column ${name}: rename one`)
    else read('show', name, value)
  }
  if (columns.length > maxColumns) errors.push(`group and show have more than ${maxColumns} columns together`)
  return { columns, errors }
}

type Read = { column: ResourceGroupedColumn } | { error: string }

const groupForms = "must be a field or a part of a date, such as 'currency' or { month: 'due' }"
const showForms = "must be 'count' or one aggregate of a field, such as { sum: 'total' }"

function readGroup(name: string, value: unknown, fields: ReportFields): Read {
  if (typeof value === 'string') return readField(value, fields, (field) => groupColumn(name, field))
  const [part, field] = onlyMember(value)
  if (part === undefined) return { error: groupForms }
  return readField(field, fields, (found) => datePartColumn(name, part, found))
}

function readShown(name: string, value: unknown, fields: ReportFields): Read {
  if (value === 'count') return { column: countColumn(name) }
  const [aggregate, field] = onlyMember(value)
  if (aggregate === undefined) return { error: showForms }
  return readField(field, fields, (found) => aggregateColumn(name, aggregate, found))
}

/** Returns the name and value of an object's only member; both undefined for any other value. */
function onlyMember(value: unknown): [string | undefined, unknown] {
  const members = isObject(value) ? Object.entries(value).filter(([, member]) => member !== undefined) : []
  return members.length === 1 ? (members[0] as [string, unknown]) : [undefined, undefined]
}

function readField(
  name: unknown,
  { fields, concealed, conditions }: ReportFields,
  read: (field: ConditionFields[string]) => Read,
): Read {
  const shown = Object.keys(fields).filter((field) => ![...concealed, ...conditions].includes(field))
  const field = typeof name === 'string' && Object.hasOwn(fields, name) ? fields[name] : undefined
  if (field === undefined)
    return { error: `names '${String(name)}', which is not a field: ${hint(String(name), shown)}` }
  if (concealed.includes(field.on.field)) {
    return { error: `names ${name}, which lists and reports never contain: ${hint('', shown)}` }
  }
  if (conditions.includes(field.on.field)) {
    return { error: `names ${name}, a computed condition, which only where can name: ${hint('', shown)}` }
  }
  const result = read(field)
  return 'error' in result ? { error: `names ${name}, which ${result.error}` } : result
}

function hint(name: string, known: readonly string[]): string {
  const suggestion = nearest(name, known)
  return suggestion === undefined ? `use one of ${known.join(', ')}` : `did you mean ${suggestion}?`
}
