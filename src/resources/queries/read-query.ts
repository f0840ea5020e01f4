import { type FieldError, Problem } from '../../http/problems/problem.ts'
import type { Filter } from '../../storage/rows/page-query.ts'
import { endOfPrefix, passesNone, type RelationStep, type RowTest } from '../../storage/rows/row-test.ts'
import type { ConditionField } from '../conditions/fields.ts'
import { maxQuery, parameterNames, type QueryGrammar } from './grammar.ts'
import { isLonger, readComparison, readEnumeration } from './read-comparisons.ts'

/** The comparisons in a query. `filters` can use indexes; `where` tests everything else. */
export interface Comparisons {
  filters: Filter[]
  where?: RowTest
}

const nothing: Comparisons = { filters: [] }

/**
 * Reads the parameters with operators, comma-separated enumeration values, and `or`. Throws INVALID_INPUT, which lists
 * the errors.
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
      errors.push({
        field: name,
        message: `exceeds the limit: at most ${maxQuery.parameters} parameters may have operators`,
      })
    } else if (parameter) tests.push(readComparison(parameter.field, parameter.operator, text, name, errors))
    else if (list && text.includes(',')) tests.push(readEnumeration(list, text, name, errors))
    else if (name === 'or' && grammar.hasAlternatives) tests.push(readAlternatives(text, grammar, errors))
  }
  if (errors.length > 0) throw new Problem('INVALID_INPUT', 'The query is malformed', { errors })
  return tests.length > 0 ? separated(tests) : nothing
}

/** A comparison such as `status:paid` or `total[from]:10`; a value in double quotes may contain commas. */
const alternative = /([A-Za-z0-9.]+)(?:\[([a-z]+)\])?:(?:"((?:[^"]|"")*)"(?=,|$)|([^,]*))(?:,(?=.)|$)/suy

/**
 * Splits `or` at its commas, up to one alternative more than allowed; `rest` begins with the first malformed
 * alternative.
 */
function splitAlternatives(text: string) {
  const found: { name: string; operator: string | undefined; value: string }[] = []
  let rest = text
  do {
    alternative.lastIndex = text.length - rest.length
    const match = alternative.exec(text)
    if (match === null) return { found, rest }
    const [, name = '', operator, quoted, raw = ''] = match
    found.push({ name, operator, value: quoted === undefined ? raw : quoted.replaceAll('""', '"') })
    rest = text.slice(alternative.lastIndex)
  } while (rest !== '' && found.length <= maxQuery.alternatives)
  return { found, rest: '' }
}

/** Returns the names of the relations that the alternatives in `or` follow. */
export const alternativeRelations = (text: string): Set<string> =>
  new Set(
    splitAlternatives(text).found.flatMap(({ name }) => (name.includes('.') ? [name.split('.')[0] as string] : [])),
  )

/** Reads `or`: comma-separated comparisons, at least one of which must hold. */
function readAlternatives(text: string, grammar: QueryGrammar, errors: FieldError[]): RowTest {
  const refuse = (message: string) => {
    errors.push({ field: 'or', message })
    return passesNone
  }
  if (isLonger(text, maxQuery.alternativesLength))
    return refuse(`must have at most ${maxQuery.alternativesLength} characters`)
  const { found, rest } = splitAlternatives(text)
  const tests: RowTest[] = []
  for (const { name, operator, value } of found) {
    if (tests.length === maxQuery.alternatives) return refuse(`must have at most ${maxQuery.alternatives} alternatives`)
    const parameter = operator === undefined ? name : `${name}[${operator}]`
    const compared = operator === 'in' ? undefined : comparedIn(grammar, name, parameter)
    if (compared === undefined) {
      return refuse(`does not support '${parameter.slice(0, 80)}'; use ${parameterNames(grammar).join(', ')}`)
    }
    const { field, along } = compared
    const test = readComparison(field, operator ?? '=', value, 'or', errors)
    tests.push(along ? { along, related: test } : test)
  }
  if (rest !== '' || found.length === 0) {
    return refuse(`must be field:value or field[operator]:value, separated by commas, not '${rest.slice(0, 40)}'`)
  }
  return tests.length === 1 ? (tests[0] as RowTest) : { any: tests }
}

/**
 * Returns the field that a parameter compares and, for a field of a related row, the step to that row. Returns
 * undefined if there is no such parameter.
 */
function comparedIn(
  { fields, parameters, related }: QueryGrammar,
  name: string,
  parameter: string,
): Compared | undefined {
  const at = name.indexOf('.') + 1
  if (at > 0) {
    const other = related.get(name.slice(0, at - 1))
    const compared = other && comparedIn(other.grammar, name.slice(at), parameter.slice(at))
    return compared && { ...compared, along: other.step }
  }
  const field = name === parameter ? fields.get(name) : parameters.get(parameter)?.field
  return field && { field }
}

interface Compared {
  field: ConditionField
  along?: RelationStep
}

/** Converts the tests that can use an index to filters; the other tests remain in `where`. */
function separated(tests: readonly RowTest[]): Comparisons {
  const others = tests.filter((test) => filtersOf(test).length === 0)
  return {
    filters: tests.flatMap(filtersOf),
    ...(others.length > 0 && { where: others.length === 1 ? (others[0] as RowTest) : { all: others } }),
  }
}

/** Converts a test to filters; returns none if no filters are equivalent to it. */
function filtersOf(test: RowTest): Filter[] {
  if (!('on' in test)) return []
  const { on, op, values } = test
  const [value] = values
  // In rows without a value, the companion column may contain an empty string.
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
