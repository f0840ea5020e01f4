import { type DecimalForm, decimalFormOf } from '../../http/decimal.ts'
import type { CellType } from '../../storage/engine.ts'
import { columnType } from '../column-types.ts'
import type { ConditionField } from '../conditions/fields.ts'
import { isDayField } from '../conditions/values.ts'

/** The parts of a date that rows can be grouped by, with the length of their text: `2026-11-21`, `2026-11`, `2026`. */
const dateParts = { day: 10, month: 7, year: 4 } as const
export type DatePart = keyof typeof dateParts

export type Aggregate = 'sum' | 'min' | 'max'

/** A column of groups; `sql` is the term that is grouped or aggregated. */
export interface GroupedColumn {
  name: string
  type: CellType
  decimal?: DecimalForm
  sql: string
  role: 'group' | 'count' | Aggregate
}

/** A column, or why the field cannot be one. */
type Read = { column: GroupedColumn } | { error: string }

/** Counts the rows of a group. */
export const countColumn = (name: string): GroupedColumn => ({ name, type: 'integer', sql: '*', role: 'count' })

/** Groups rows by the value of a field. */
export function groupColumn(name: string, field: ConditionField): Read {
  if (field.kind === 'json') return { error: 'is an object or a list' }
  // Both zeros are one group; PostgreSQL would show either.
  const term = field.kind === 'number' ? `${quoted(field)} + 0` : quoted(field)
  return { column: { name, ...cellOf(field), sql: term, role: 'group' } }
}

/** Groups rows by a part of a day or an instant, which is in UTC. */
export function datePartColumn(name: string, part: string, field: ConditionField): Read {
  if (!Object.hasOwn(dateParts, part)) {
    return { error: `cannot be grouped by ${part}: use ${Object.keys(dateParts).join(', ')}` }
  }
  if (field.kind !== 'instant' && !isDayField(field)) return { error: 'is neither a day nor an instant' }
  const type = part === 'day' ? 'date' : 'string'
  return { column: { name, type, sql: `substr(${quoted(field)}, 1, ${dateParts[part as DatePart]})`, role: 'group' } }
}

/** Aggregates the values of a field: numbers and decimals, for `min` and `max` also days and instants. */
export function aggregateColumn(name: string, aggregate: string, field: ConditionField): Read {
  if (!isAggregate(aggregate)) return { error: `has no ${aggregate}: use sum, min or max` }
  const order = columnType(field.kind).range?.(field.schema)
  if (order !== 'numeric' && aggregate === 'sum') return { error: 'is no number or decimal, so it has no sum' }
  if (order === undefined) return { error: `is no number, decimal, day or instant, so it has no ${aggregate}` }
  const term = field.kind === 'number' ? `${quoted(field)} + 0` : quoted(field)
  return { column: { name, ...cellOf(field), sql: term, role: aggregate } }
}

const isAggregate = (name: string): name is Aggregate => ['sum', 'min', 'max'].includes(name)

const quoted = ({ on }: ConditionField) => `"${on.column}"`

function cellOf(field: ConditionField): Pick<GroupedColumn, 'type' | 'decimal'> {
  const decimal = decimalFormOf(field.schema)
  return { type: isDayField(field) ? 'date' : columnType(field.kind).cell, ...(decimal && { decimal }) }
}
