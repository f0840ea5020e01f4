import { integerOf, numberOf } from '../../http/policies/body-parsing.ts'
import type { FieldError } from '../../http/problems/problem.ts'
import { noControls } from '../../http/text-rules.ts'
import { passesNone, type RowTest } from '../../storage/rows/row-test.ts'
import type { ConditionField } from '../conditions/fields.ts'
import { readCondition } from '../conditions/read-condition.ts'
import { maxQuery } from './grammar.ts'

/** Reads one comparison; `parameter` is the parameter's name, for error messages. */
export function readComparison(
  field: ConditionField,
  operator: string,
  text: string,
  parameter: string,
  errors: FieldError[],
): RowTest {
  const refuse = (message: string) => {
    errors.push({ field: parameter, message })
    return passesNone
  }
  const texts = operator === 'in' ? itemsOf(text) : [text]
  if (texts.length > maxQuery.values) return refuse(`must have at most ${maxQuery.values} values`)
  const maxLength = parameter === 'or' ? maxQuery.alternativesLength : maxQuery.characters
  const wrong = texts.map((one) => textError(one, maxLength)).find((message) => message !== undefined)
  if (wrong !== undefined) return refuse(wrong)
  const values = texts.map((one) => (operator === 'null' ? booleanOf(one) : typedValue(field, one)))
  const operand = operator === 'in' ? values : values[0]
  const name = field.on.field
  const condition = { [name]: operator === '=' ? operand : { [operator]: operand } }
  const { test, errors: faults } = readCondition(condition, { fields: { [name]: field } })
  const [fault] = faults
  return fault === undefined ? test : refuse(fault.message)
}

/** Reads several values of an enumeration. Unknown values match nothing, as in a filter with one value. */
export function readEnumeration(field: ConditionField, text: string, parameter: string, errors: FieldError[]): RowTest {
  const values = [...new Set(text.split(','))]
  if (values.length <= maxQuery.values) return { on: field.on, op: 'in', values }
  errors.push({ field: parameter, message: `must have at most ${maxQuery.values} values` })
  return passesNone
}

const item = /(?:"((?:[^"]|"")*)"(?=,|$)|([^,]*))(,|$)/suy

/**
 * Splits a comma-separated list; empty text has no items. A value in double quotes may contain commas, and double
 * quotes if they are doubled.
 */
function itemsOf(text: string): string[] {
  const items: string[] = []
  item.lastIndex = 0
  for (let hasMore = text !== ''; hasMore && items.length <= maxQuery.values; ) {
    const [, quoted, raw = '', end] = item.exec(text) as RegExpExecArray
    items.push(quoted === undefined ? raw : quoted.replaceAll('""', '"'))
    hasMore = end === ','
  }
  return items
}

/** Compares the length in code points, as JSON Schema does. */
export const isLonger = (text: string, max: number) => text.length > max && [...text].length > max

const withoutControls = new RegExp(noControls)

function textError(text: string, maxLength: number): string | undefined {
  if (isLonger(text, maxLength)) return `must have at most ${maxLength} characters in a value`
  return withoutControls.test(text) ? undefined : 'must not contain control characters'
}

/** Converts text to the type of its field. Text that is not a valid value is returned unchanged and then refused. */
function typedValue({ kind }: ConditionField, text: string): unknown {
  if (kind === 'integer' || kind === 'reference') return integerOf(text)
  if (kind === 'number') return numberOf(text)
  return kind === 'boolean' ? booleanOf(text) : text
}

const booleanOf = (text: string) => (text === 'true' || text === 'false' ? text === 'true' : text)
