import { type Static, Type } from 'typebox'
import { decimalPattern } from '../http/decimal.ts'
import { instantOf, isDay } from '../http/headers/instant.ts'
import { documentedAs } from '../http/partial-schema.ts'
import type { FieldError } from '../http/problems/problem.ts'
import { Line } from '../http/text-rules.ts'
import { mustBeUuid, uuidOf } from '../http/uuid.ts'
import { declaredErrors, readDeclared } from './declared-report.ts'
import { type FilterValue, parseFilterDecimal, type ReportFilter } from './report-filters.ts'
import type { ReportKind, ReportQuery, ServedReport } from './report-types.ts'

const Text = Line(0, 300)
const List = Type.Array(Text, { maxItems: 50 })
/**
 * Also accepts a comma-separated string, which the OpenAPI document omits, because generated clients handle a single
 * type more easily.
 */
const Names = Type.Union([List, Text], documentedAs(List))

/** The parameters of reports that are not declared with `report()`; each report type accepts some of them. */
export const ReportParameters = Type.Object({
  from: Type.Optional(Type.String({ maxLength: 40, description: 'Only rows from this day or instant on' })),
  to: Type.Optional(Type.String({ maxLength: 40, description: 'Only rows before this day or instant' })),
  filter: Type.Optional(Type.Record(Type.String(), Type.Union([Text, Type.Number(), Type.Boolean()]))),
  fields: Type.Optional(Names),
  sort: Type.Optional(Names),
})

/** Validates a report's parameters against its type; returns the parsed query and all errors. */
export function checkParameters(
  kind: ServedReport,
  parameters: Static<typeof ReportParameters> = {},
): { query: ReportQuery; errors: FieldError[] } {
  if (kind.typed) {
    const result = readDeclared(kind.typed, parameters)
    return 'value' in result
      ? { query: result.value, errors: [] }
      : { query: {}, errors: declaredErrors(result.failures) }
  }
  const errors: FieldError[] = []
  const reject = (field: string, message: string) => void errors.push({ field: `parameters.${field}`, message })
  const [from, to] = [parameters.from, parameters.to].map((bound, at) =>
    boundOf(kind, bound, at === 0 ? 'from' : 'to', reject),
  )
  if (from !== undefined && to !== undefined && from >= to) reject('to', 'must be later than `from`')
  const filter = parameters.filter && filterOf(kind, parameters.filter, reject)
  const fields = parameters.fields === undefined ? [] : listOf(parameters.fields)
  checkNames(
    'fields',
    fields,
    kind.columns.map(({ name }) => name),
    reject,
  )
  const sort = parameters.sort === undefined ? [] : listOf(parameters.sort)
  checkNames(
    'sort',
    sort.map((entry) => entry.replace(/^-/, '')),
    Object.keys(kind.sorts ?? {}),
    reject,
  )
  const unknown = Object.keys(parameters).filter((name) => !Object.hasOwn(ReportParameters.properties, name))
  for (const name of unknown)
    reject(name.slice(0, 40), `is unknown: use one of ${Object.keys(ReportParameters.properties).join(', ')}`)
  const query = {
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
    ...(filter && Object.keys(filter).length > 0 && { filter }),
    ...(fields.length > 0 && { fields }),
    ...(sort.length > 0 && { sort }),
  }
  return { query, errors }
}

type Reject = (field: string, message: string) => void

/** Splits comma-separated names into an array; trims names and omits empty names. */
const listOf = (names: string | string[]): string[] =>
  (typeof names === 'string' ? names.split(',') : names).map((name) => name.trim()).filter((name) => name !== '')

function checkNames(field: string, names: string[], allowed: string[], reject: Reject): void {
  const unknown = names.filter((name) => !allowed.includes(name))
  const known = allowed.length > 0 ? `use ${allowed.join(', ')}` : 'this report accepts none'
  if (unknown.length > 0)
    reject(
      field,
      `has the unknown ${unknown.length === 1 ? 'name' : 'names'} ${unknown.map((name) => name.slice(0, 40)).join(', ')}: ${known}`,
    )
  if (new Set(names).size < names.length) reject(field, 'names a field twice')
}

function boundOf({ time }: ReportKind, bound: string | undefined, field: string, reject: Reject): string | undefined {
  if (bound === undefined) return undefined
  if (!time) return void reject(field, 'does not apply: this report has no time range')
  const isOfDays = time.type === 'date'
  const read = isOfDays ? (isDay(bound) ? bound : undefined) : instantOf(bound)
  if (read === undefined)
    reject(field, `must be ${isOfDays ? 'a day such as 2026-01-31' : 'a day or an RFC 3339 instant'}`)
  return read
}

function filterOf({ filters = [] }: ReportKind, parameters: Record<string, FilterValue>, reject: Reject) {
  for (const [name, value] of Object.entries(parameters)) {
    const filter = filters.find((known) => known.name === name)
    const field = `filter.${name.slice(0, 40)}`
    if (filter) checkValue(filter, value, (message) => reject(field, message))
    else
      reject(
        field,
        filters.length > 0
          ? `is unknown: use one of ${filters.map((known) => known.name).join(', ')}`
          : 'is unknown: this report has no filters',
      )
  }
  return parameters
}

function checkValue(
  { type, decimal, isUuid }: ReportFilter,
  value: FilterValue,
  reject: (message: string) => void,
): void {
  if (decimal === undefined) {
    if (typeof value !== type) reject(`must be a ${type}`)
    else if (isUuid && uuidOf(String(value)) === undefined) reject(mustBeUuid)
    return
  }
  const parsed = parseFilterDecimal(value, decimal)
  if ('error' in parsed) reject(parsed.error)
}

const filterSchema = ({ type, decimal, isUuid }: ReportFilter): object =>
  isUuid
    ? { type, format: 'uuid' }
    : decimal
      ? { type: 'string', pattern: decimalPattern({ ...decimal, minimum: '-' }) }
      : { type }

const nameList = (names: string[], description: string) => ({
  anyOf: [{ type: 'array', items: { type: 'string', enum: names } }, { type: 'string' }],
  description,
})

/** Returns the JSON Schema of the parameters that a report type accepts. */
export function parametersSchema({ columns, filters = [], sorts = {}, time, typed }: ServedReport): object {
  if (typed) return typed.parameters
  const format = time?.type === 'date' ? 'date' : 'date-time'
  const bounds = {
    from: { type: 'string', format, description: 'Start of the time range (inclusive); a day means its start (UTC)' },
    to: { type: 'string', format, description: 'End of the time range (exclusive); a day means its start (UTC)' },
  }
  const sortable = Object.keys(sorts).flatMap((name) => [name, `-${name}`])
  const filter = {
    type: 'object',
    properties: Object.fromEntries(filters.map((filter) => [filter.name, filterSchema(filter)])),
    additionalProperties: false,
  }
  return {
    type: 'object',
    properties: {
      ...(time && bounds),
      ...(filters.length > 0 && { filter }),
      fields: nameList(
        columns.map(({ name }) => name),
        'The columns to include, in this order; or a comma-separated string',
      ),
      ...(sortable.length > 0 && {
        sort: nameList(sortable, 'Fields to sort by, with a minus sign for descending; or a comma-separated string'),
      }),
    },
    additionalProperties: false,
  }
}
