import { type Static, Type } from 'typebox'
import { instantOf, isDay } from '../http/headers/instant.ts'
import { documentedAs } from '../http/partial-schema.ts'
import type { FieldError } from '../http/problems/problem.ts'
import { Line } from '../http/text-rules.ts'
import type { FilterValue, ReportFilter, ReportKind, ReportQuery } from './report-types.ts'

const Text = Line(0, 300)
const List = Type.Array(Text, { maxItems: 50 })
/** Also accepts comma-separated names, undocumented: generated clients handle a single type more easily. */
const Names = Type.Union([List, Text], documentedAs(List))

/** Parameters that narrow a report; each report type accepts some of them. */
export const ReportParameters = Type.Object({
  from: Type.Optional(Type.String({ maxLength: 40, description: 'Only rows of this day or instant, or later' })),
  to: Type.Optional(Type.String({ maxLength: 40, description: 'Only rows of before this day or instant' })),
  filter: Type.Optional(Type.Record(Type.String(), Type.Union([Text, Type.Number(), Type.Boolean()]))),
  fields: Type.Optional(Names),
  sort: Type.Optional(Names),
})

/** Validates the parameters of a report against its type; returns the parsed query and all errors. */
export function checkParameters(
  kind: ReportKind,
  given: Static<typeof ReportParameters> = {},
): { asked: ReportQuery; errors: FieldError[] } {
  const errors: FieldError[] = []
  const wrong = (field: string, message: string) => void errors.push({ field: `parameters.${field}`, message })
  const [from, to] = [given.from, given.to].map((bound, at) => boundOf(kind, bound, at === 0 ? 'from' : 'to', wrong))
  if (from !== undefined && to !== undefined && from >= to) wrong('to', 'must be later than from')
  const filter = given.filter && filterOf(kind, given.filter, wrong)
  const fields = given.fields === undefined ? [] : listOf(given.fields)
  checkNames(
    'fields',
    fields,
    kind.columns.map(({ name }) => name),
    wrong,
  )
  const sort = given.sort === undefined ? [] : listOf(given.sort)
  checkNames(
    'sort',
    sort.map((entry) => entry.replace(/^-/, '')),
    Object.keys(kind.sorts ?? {}),
    wrong,
  )
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(ReportParameters.properties, name))
  for (const name of unknown)
    wrong(name.slice(0, 40), `is none of ${Object.keys(ReportParameters.properties).join(', ')}`)
  const asked = {
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
    ...(filter && Object.keys(filter).length > 0 && { filter }),
    ...(fields.length > 0 && { fields }),
    ...(sort.length > 0 && { sort }),
  }
  return { asked, errors }
}

type Wrong = (field: string, message: string) => void

/** An array, or comma-separated names as in a query. */
const listOf = (names: string | string[]): string[] =>
  (typeof names === 'string' ? names.split(',') : names).map((name) => name.trim()).filter((name) => name !== '')

function checkNames(field: string, names: string[], allowed: string[], wrong: Wrong): void {
  const unknown = names.filter((name) => !allowed.includes(name))
  const known = allowed.length > 0 ? `only ${allowed.join(', ')}` : 'none can be given'
  if (unknown.length > 0) wrong(field, `does not know ${unknown.map((name) => name.slice(0, 40)).join(', ')}: ${known}`)
  if (new Set(names).size < names.length) wrong(field, 'names a field twice')
}

function boundOf({ time }: ReportKind, bound: string | undefined, field: string, wrong: Wrong): string | undefined {
  if (bound === undefined) return undefined
  if (!time) return void wrong(field, 'does not apply: the report is of one moment')
  const isOfDays = time.type === 'date'
  const read = isOfDays ? (isDay(bound) ? bound : undefined) : instantOf(bound)
  if (read === undefined)
    wrong(field, `must be ${isOfDays ? 'a day such as 2026-01-31' : 'a day or an instant of RFC 3339'}`)
  return read
}

function filterOf({ filters = [] }: ReportKind, given: Record<string, FilterValue>, wrong: Wrong) {
  for (const [name, value] of Object.entries(given)) {
    const filter = filters.find((known) => known.name === name)
    const field = `filter.${name.slice(0, 40)}`
    if (filter) checkValue(filter, value, (message) => wrong(field, message))
    else
      wrong(
        field,
        filters.length > 0 ? `is none of ${filters.map((known) => known.name).join(', ')}` : 'cannot be given',
      )
  }
  return given
}

function checkValue({ type }: ReportFilter, value: FilterValue, wrong: (message: string) => void): void {
  if (typeof value !== type) wrong(`must be a ${type}`)
}

const nameList = (names: string[], description: string) => ({
  anyOf: [{ type: 'array', items: { type: 'string', enum: names } }, { type: 'string' }],
  description,
})

/** The JSON Schema of the parameters that a report type accepts. */
export function parametersSchema({ columns, filters = [], sorts = {}, time }: ReportKind): object {
  const format = time?.type === 'date' ? 'date' : 'date-time'
  const bounds = {
    from: { type: 'string', format, description: 'The first instant, included; a day alone is its start (UTC)' },
    to: { type: 'string', format, description: 'The last instant, excluded; a day alone is its start (UTC)' },
  }
  const sortable = Object.keys(sorts).flatMap((name) => [name, `-${name}`])
  const filter = {
    type: 'object',
    properties: Object.fromEntries(filters.map(({ name, type }) => [name, { type }])),
    additionalProperties: false,
  }
  return {
    type: 'object',
    properties: {
      ...(time && bounds),
      ...(filters.length > 0 && { filter }),
      fields: nameList(
        columns.map(({ name }) => name),
        'The columns to show, in this order; or one text with commas',
      ),
      ...(sortable.length > 0 && { sort: nameList(sortable, 'Descending with a minus sign; or one text with commas') }),
    },
    additionalProperties: false,
  }
}
