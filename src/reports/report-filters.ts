import { type RawBuilder, sql } from 'kysely'
import { type DecimalForm, decimalTextOf, parseDecimal } from '../http/decimal.ts'
import { Problem } from '../http/problems/problem.ts'
import type { Engine } from '../storage/engine.ts'
import { wideInteger } from '../storage/rows/column-codec.ts'
import { caseFold } from '../storage/rows/page-query.ts'
import type { StoredValue, TestedColumn } from '../storage/rows/row-test.ts'

/** A condition that a report request may contain; `column` is an SQL expression. */
export interface ReportFilter {
  name: string
  type: 'string' | 'number' | 'boolean'
  column: string
  op: '=' | '>=' | '<=' | '>' | '<'
  /** Whether the column holds case-folded text. */
  folded: boolean
  /**
   * The format of a decimal; undefined for other types. The `type` of a decimal is `string`, and its `column` is an
   * integer without the decimal point.
   */
  decimal?: DecimalForm
  /** True for UUIDs, whose `type` is `string`. */
  isUuid?: true
}

export type FilterValue = string | number | boolean

/**
 * Returns the value to compare with a filter's column. Throws a `Problem` if a decimal is no longer valid, because
 * the definition has changed since the request.
 */
export function operandOf(
  engine: Engine,
  { name, folded, decimal, isUuid }: ReportFilter,
  value: FilterValue,
): RawBuilder<unknown> {
  if (isUuid) return uuidValue(engine, String(value).toLowerCase())
  if (decimal) {
    const parsed = parseFilterDecimal(value, decimal)
    if ('error' in parsed) throw new Problem('VALIDATION_ERROR', `The filter ${name} ${parsed.error}`)
    return sql`${reportValue(wideInteger(parsed.value))}`
  }
  // Booleans are stored as 1 or 0.
  return sql`${folded ? caseFold(String(value)) : reportValue(typeof value === 'boolean' ? Number(value) : value)}`
}

/** Returns a function that binds a value for comparison with a column. */
export const comparedIn =
  (engine: Engine) =>
  (value: StoredValue | bigint, { isUuid }: TestedColumn): unknown =>
    isUuid ? uuidValue(engine, value) : reportValue(value)

/**
 * Casts numbers from text. Without a cast, PostgreSQL would read the number with the type of its column, which may be
 * narrower, and reports would receive 64-bit integers as double precision.
 */
function reportValue(value: StoredValue | bigint): unknown {
  if (typeof value === 'string') return value
  const isInteger = typeof value === 'bigint' || Number.isSafeInteger(value)
  return sql`cast(${String(value)} as ${sql.raw(isInteger ? 'bigint' : 'double precision')})`
}

/** Casts a UUID for comparison, because reports on PostgreSQL receive values as settings, which are text. */
const uuidValue = ({ uuidType }: Engine, value: unknown): RawBuilder<unknown> =>
  sql`cast(${value} as ${sql.raw(uuidType)})`

/** Parses a filter's decimal, which may be a string or a number. */
export const parseFilterDecimal = (value: FilterValue, form: DecimalForm): ReturnType<typeof parseDecimal> =>
  parseDecimal(typeof value === 'number' ? decimalTextOf(value) : String(value), form)
