import { integerOf, numberOf } from '../../http/policies/body-parsing.ts'
import { type FieldError, Problem } from '../../http/problems/problem.ts'
import { noControls } from '../../http/text-rules.ts'
import type { Filter } from '../../storage/rows/page-query.ts'
import { endOfPrefix, passesNone, type RowTest } from '../../storage/rows/row-test.ts'
import type { ConditionField } from '../conditions/fields.ts'
import { readCondition } from '../conditions/read-condition.ts'
import { maxQuery, parameterNames, type QueryGrammar } from './grammar.ts'

/** The conditions of a query: filters, which can use indexes, and a test for all other comparisons. */
export interface Comparisons {
  filters: Filter[]
  where?: RowTest
}

const nothing: Comparisons = { filters: [] }

/**
 * Reads the parameters with operators, comma-separated enumeration values, and `or`. Throws INVALID_INPUT, which lists
 * every error.
 */
export function readComparisons(query: Readonly<Record<string, unknown>>, grammar: QueryGrammar): Comparisons {
  const errors: FieldError[] = []
  const tests: RowTest[] = []
  let parameters = 0
  for (const name in query) {
    const text = query[name]
    if (typeof text !== 'string') continue
    const parameter = grammar.parameters.get(name)
    const list = parameter ? undefined : grammar.lists.get(name)
    if (parameter && ++parameters === maxQuery.parameters + 1) {
      errors.push({ field: name, message: `is one too many: at most ${maxQuery.parameters} parameters have operators` })
    } else if (parameter) tests.push(readComparison(parameter.field, parameter.operator, text, name, errors))
    else if (list && text.includes(',')) tests.push(readEnumeration(list, text, name, errors))
    else if (name === 'or' && grammar.hasAlternatives) tests.push(readAlternatives(text, grammar, errors))
  }
  if (errors.length > 0) throw new Problem('INVALID_INPUT', 'The query is malformed', { errors })
  return tests.length > 0 ? separated(tests) : nothing
}

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

/** A comparison such as `status:paid` or `total[from]:10`; a value in double quotes may contain commas. */
const alternative = /([A-Za-z0-9]+)(?:\[([a-z]+)\])?:(?:"((?:[^"]|"")*)"(?=,|$)|([^,]*))(?:,(?=.)|$)/suy

/** Reads `or`: comma-separated comparisons, at least one of which must hold. */
function readAlternatives(text: string, grammar: QueryGrammar, errors: FieldError[]): RowTest {
  const refuse = (message: string) => {
    errors.push({ field: 'or', message })
    return passesNone
  }
  if (isLonger(text, maxQuery.alternativesLength))
    return refuse(`must have at most ${maxQuery.alternativesLength} characters`)
  const tests: RowTest[] = []
  for (let at = 0; at < text.length || at === 0; at = alternative.lastIndex) {
    alternative.lastIndex = at
    const match = alternative.exec(text)
    if (match === null) {
      return refuse(
        `must be field:value or field[operator]:value, separated by commas, not '${text.slice(at, at + 40)}'`,
      )
    }
    if (tests.length === maxQuery.alternatives) return refuse(`must have at most ${maxQuery.alternatives} alternatives`)
    const [, name = '', operator, quoted, raw = ''] = match
    const field = grammar.fields.get(name)
    const isKnown = operator === undefined || (operator !== 'in' && grammar.parameters.has(`${name}[${operator}]`))
    if (field === undefined || !isKnown) {
      return refuse(
        `does not support '${match[0].split(':', 1)[0]?.slice(0, 80)}'; use ${parameterNames(grammar).join(', ')}`,
      )
    }
    const sent = quoted === undefined ? raw : quoted.replaceAll('""', '"')
    tests.push(readComparison(field, operator ?? '=', sent, 'or', errors))
  }
  return tests.length === 1 ? (tests[0] as RowTest) : { any: tests }
}

const item = /(?:"((?:[^"]|"")*)"(?=,|$)|([^,]*))(,|$)/suy

/**
 * Splits a comma-separated list; none if it is empty. A value in double quotes may contain commas, and double quotes if
 * they are doubled.
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
const isLonger = (text: string, max: number) => text.length > max && [...text].length > max

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

/** Separates out the tests that can use an index, like the filters of other parameters. */
function separated(tests: readonly RowTest[]): Comparisons {
  const others = tests.filter((test) => filtersOf(test).length === 0)
  return {
    filters: tests.flatMap(filtersOf),
    ...(others.length > 0 && { where: others.length === 1 ? (others[0] as RowTest) : { all: others } }),
  }
}

/** Returns the filters equivalent to a test; none if there are no such filters. */
function filtersOf(test: RowTest): Filter[] {
  if (!('on' in test)) return []
  const { on, op, values } = test
  const [value] = values
  // The companion column may contain an empty string in rows without a value.
  if (value === undefined || values.length > 1 || (on.isBlank && value === '')) return []
  const filter = { field: on.field, value, stored: true } as const
  if (op === 'in' || op === '=') return [{ ...filter, op: '=' }]
  if (op === '>' || op === '>=' || op === '<' || op === '<=') return [{ ...filter, op }]
  const end = op === 'prefix' && on.sortsByBytes ? endOfPrefix(String(value)) : undefined
  return end === undefined
    ? []
    : [
        { ...filter, op: '>=' },
        { ...filter, op: '<', value: end },
      ]
}
