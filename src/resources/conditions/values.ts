import type { TSchema } from 'typebox'
import { type DecimalForm, decimalFormOf, decimalTextOf, parseDecimal } from '../../http/decimal.ts'
import { instantOf, isDay } from '../../http/headers/instant.ts'
import { mustBeOneOf } from '../../http/problems/allowed-values.ts'
import { isStorableText } from '../../http/text-rules.ts'
import { mustBeUuid, uuidOf } from '../../http/uuid.ts'
import { caseFold } from '../../storage/rows/page-query.ts'
import type { StoredValue, TestedColumn } from '../../storage/rows/row-test.ts'
import { choicesOf, columnType } from '../column-types.ts'
import type { ConditionField } from './fields.ts'

/** The stored form of a value (null if no row can have it), or an error message. */
type ReadValue = { value: StoredValue | null } | { error: string }

export const isDayField = ({ kind, schema }: ConditionField) =>
  kind === 'exact' && (schema as { format?: string }).format === 'date'

/** Returns a field's operators, except equality, which every kind but `json` supports. */
export function operatorsOf(field: ConditionField): readonly string[] {
  const { kind, schema } = field
  if (kind === 'json') return ['null']
  const isOrdered = columnType(kind).range?.(schema) !== undefined
  const isText = (kind === 'text' || kind === 'exact') && !isDayField(field) && choicesOf(schema) === undefined
  return [
    ...['in', 'not', 'null'],
    ...(isOrdered ? ['from', 'to', 'before', 'after'] : []),
    ...(isText ? ['prefix'] : []),
  ]
}

/**
 * Converts a value to the form stored in the field's column. `today` returns the current day; without it, comparison
 * with `'today'` is an error.
 */
export function readValue(field: ConditionField, value: unknown, today?: () => string): ReadValue {
  const { kind, schema, on } = field
  const choices = choicesOf(schema)
  if (choices !== undefined && !choices.includes(value)) return { error: mustBeOneOf(choices) }
  if (isDayField(field)) return readDay(value, today)
  if (kind === 'instant') {
    const instant = typeof value === 'string' ? instantOf(value) : undefined
    return instant === undefined ? { error: 'must be an instant such as 2026-11-21T00:00:00Z' } : { value: instant }
  }
  if (kind === 'decimal') return readDecimal(schema, value)
  if (kind === 'integer' || kind === 'reference')
    return Number.isSafeInteger(value)
      ? { value: value as number }
      : { error: `must be an integer within ±${Number.MAX_SAFE_INTEGER}` }
  if (kind === 'uuid') {
    const uuid = typeof value === 'string' ? uuidOf(value) : undefined
    return uuid === undefined ? { error: mustBeUuid } : { value: uuid }
  }
  if (kind === 'number') return Number.isFinite(value) ? { value: value as number } : { error: 'must be a number' }
  if (kind === 'boolean')
    return typeof value === 'boolean' ? { value: Number(value) } : { error: 'must be true or false' }
  if (typeof value !== 'string') return { error: 'must be text' }
  return { value: isStorableText(value) ? comparedText(on, value) : null }
}

function readDay(value: unknown, today: (() => string) | undefined): ReadValue {
  const day = value === 'today' && today ? today() : value
  if (typeof day === 'string' && isDay(day)) return { value: day }
  return { error: `must be a day such as 2026-03-01${today ? ", or 'today'" : ''}` }
}

/** Accepts the same numbers as request bodies: those whose decimal digits a double preserves. */
function readDecimal(schema: TSchema, value: unknown): ReadValue {
  if (typeof value !== 'string' && !Number.isFinite(value)) return { error: 'must be a decimal number' }
  const text = typeof value === 'string' ? value : decimalTextOf(value as number)
  return parseDecimal(text, decimalFormOf(schema) as DecimalForm)
}

const comparedText = ({ keyColumn }: TestedColumn, text: string) => (keyColumn === undefined ? text : caseFold(text))

/** Converts a value from its API form to the form that tests compare; null if it is absent. */
export function comparedValue({ kind }: ConditionField, on: TestedColumn, value: unknown): StoredValue | null {
  if (value === undefined || value === null) return null
  if (typeof value === 'boolean') return Number(value)
  const stored = (columnType(kind).normalize?.(value) ?? value) as StoredValue
  return typeof stored === 'string' ? comparedText(on, stored) : stored
}
