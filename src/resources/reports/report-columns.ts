import { type DecimalForm, decimalFormOf } from '../../http/decimal.ts'
import type { CellType } from '../../storage/engine.ts'
import { columnType } from '../column-types.ts'
import type { ConditionField } from '../conditions/fields.ts'
import { isDayField } from '../conditions/values.ts'

/**
 * The parts of a date that rows can be grouped by, with the length of the resulting text: `2026-11-21`, `2026-11`,
 * `2026`.
 */
const dateParts = { day: 10, month: 7, year: 4 } as const
export type DatePart = keyof typeof dateParts

export type Aggregate = 'sum' | 'avg' | 'min' | 'max'

/** A column of a grouped report; `sql` is the expression to group by or to aggregate. */
export interface ResourceGroupedColumn {
  name: string
  type: CellType
  decimal?: DecimalForm
  sql: string
  role: 'group' | 'count' | Aggregate
}

/** A column, or the reason why the field cannot be a column. */
type Read = { column: ResourceGroupedColumn } | { error: string }

/** Returns the column that counts the rows of a group. */
export const countColumn = (name: string): ResourceGroupedColumn => ({ name, type: 'integer', sql: '*', role: 'count' })

/** Returns the column that groups rows by the value of a field. */
export function groupColumn(name: string, field: ConditionField): Read {
  if (field.kind === 'json') return { error: 'is an object or a list' }
  // Turns -0 into 0: the two are equal, so PostgreSQL could return either for their group.
  const term = field.kind === 'number' ? `${quoted(field)} + 0` : quoted(field)
  return { column: { name, ...cellOf(field), sql: term, role: 'group' } }
}

/** Returns the column that groups rows by the year, month or day of a date or of an instant (in UTC). */
export function datePartColumn(name: string, part: string, field: ConditionField): Read {
  if (!Object.hasOwn(dateParts, part)) {
    return { error: `cannot be grouped by ${part}: use ${Object.keys(dateParts).join(', ')}` }
  }
  if (field.kind !== 'instant' && !isDayField(field)) return { error: 'is neither a day nor an instant' }
  const type = part === 'day' ? 'date' : 'string'
  return { column: { name, type, sql: `substr(${quoted(field)}, 1, ${dateParts[part as DatePart]})`, role: 'group' } }
}

/**
 * Returns the column that aggregates a field: a number or a decimal or, with `min` and `max`, also a day or an instant.
 */
export function aggregateColumn(name: string, aggregate: string, field: ConditionField): Read {
  if (!isAggregate(aggregate)) return { error: `has no ${aggregate}: use ${aggregates.join(', ')}` }
  const order = columnType(field.kind).range?.(field.schema)
  const isTotal = aggregate === 'sum' || aggregate === 'avg'
  if (order !== 'numeric' && isTotal) return { error: `is not a number or decimal, so ${aggregate} cannot be used` }
  if (order === undefined) return { error: `is not a number, decimal, day or instant, so ${aggregate} cannot be used` }
  if (aggregate === 'avg') return averageColumn(name, field)
  const term = field.kind === 'number' ? `${quoted(field)} + 0` : quoted(field)
  return { column: { name, ...cellOf(field), sql: term, role: aggregate } }
}

/** How many more decimal places an average has than its field. */
const averagePlaces = 2

/** Returns the column that averages a field. An average is a decimal, even for integers. */
function averageColumn(name: string, field: ConditionField): Read {
  if (field.kind === 'number') {
    return { error: 'is a floating-point number, whose average depends on the order of the rows: declare a Decimal' }
  }
  const { precision, scale } = decimalFormOf(field.schema) ?? { precision: maxIntegerDigits, scale: 0 }
  const decimal = { precision: precision + averagePlaces, scale: scale + averagePlaces }
  return { column: { name, type: 'decimal', decimal, sql: quoted(field), role: 'avg' } }
}

const maxIntegerDigits = 16

const aggregates: readonly Aggregate[] = ['sum', 'avg', 'min', 'max']
const isAggregate = (name: string): name is Aggregate => (aggregates as readonly string[]).includes(name)

const quoted = ({ on }: ConditionField) => `"${on.column}"`

function cellOf(field: ConditionField): Pick<ResourceGroupedColumn, 'type' | 'decimal'> {
  const decimal = decimalFormOf(field.schema)
  return { type: isDayField(field) ? 'date' : columnType(field.kind).cell, ...(decimal && { decimal }) }
}
