import { nearest } from '../../http/nearest.ts'
import { caseFold } from '../../storage/rows/page-query.ts'
import {
  type ColumnTest,
  passesAll,
  passesNone,
  type RowTest,
  relatedTest,
  type StoredValue,
  type TestOperator,
} from '../../storage/rows/row-test.ts'
import { maxCondition } from './condition.ts'
import type { ConditionField, ConditionFields, ConditionRelation, ConditionRelations } from './fields.ts'
import { operatorsOf, readValue } from './values.ts'

/** The names that a condition can use, and the current day. */
export interface ConditionContext {
  fields: ConditionFields
  /** The relations that conditions can follow. A condition on a related row cannot follow another. */
  relations?: ConditionRelations
  /** The error messages for relations that the conditions cannot follow. */
  refused?: ReadonlyMap<string, string>
  /**
   * Returns the current day, such as `2026-03-01`. Required if the condition compares with `'today'`; otherwise never
   * called.
   */
  today?: () => string
}

/** An error in a condition: `message` completes a sentence that starts with `path` (empty for the whole condition). */
export interface ConditionFault {
  path: string
  message: string
}

/** The state while a condition is read. */
interface Reading extends ConditionContext {
  errors: ConditionFault[]
  /** The size of the whole condition so far. */
  size: { comparisons: number; values: number }
}

/**
 * Reads a condition, which may be any value. Returns its test and every error; if there are errors, no row passes the
 * test.
 */
export function readCondition(
  condition: unknown,
  context: ConditionContext,
): { test: RowTest; errors: ConditionFault[] } {
  const reading: Reading = { ...context, errors: [], size: { comparisons: 0, values: 0 } }
  const test = readMembers(condition, '', 1, reading)
  const { size, errors } = reading
  for (const what of ['comparisons', 'values'] as const) {
    if (size[what] > maxCondition[what]) refuse(errors, '', `has more than ${maxCondition[what]} ${what}`)
  }
  return errors.length > 0 ? { test: passesNone, errors } : { test, errors }
}

const isAbsent = (value: unknown): value is null | undefined => value === null || value === undefined
const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value))

/** Reads the members of a condition, all of which must hold. `path` is the condition's path, for error messages. */
function readMembers(condition: unknown, path: string, depth: number, reading: Reading): RowTest {
  const { fields, relations = {}, refused, errors } = reading
  if (depth > maxCondition.depth) return refuse(errors, '', `is nested more than ${maxCondition.depth} levels deep`)
  if (!isObject(condition)) return refuse(errors, path, 'must be an object with the names of fields')
  const members = Object.entries(condition)
  if (members.length === 0) return refuse(errors, path, 'names no field, so it would match every row')
  return allOf(
    members.map(([name, value]) => {
      const place = path === '' ? name : `${path}.${name}`
      if (isGroup(name, value, fields)) return readGroup(name, value, place, depth, reading)
      const field = Object.hasOwn(fields, name) ? fields[name] : undefined
      if (field !== undefined) return readField(field, value, place, reading)
      const relation = Object.hasOwn(relations, name) ? relations[name] : undefined
      if (relation !== undefined) return readRelation(relation, value, place, depth, reading)
      const known = Object.keys({ ...fields, ...relations })
      return refuse(errors, place, refused?.get(name) ?? `is not a field: ${hint(name, known)}`)
    }),
  )
}

/** Reads the condition on a related row. That condition cannot follow further relations. */
function readRelation(
  { step, fields }: ConditionRelation,
  value: unknown,
  path: string,
  depth: number,
  reading: Reading,
): RowTest {
  if (isAbsent(value)) return passesNone
  return relatedTest(step, readMembers(value, path, depth + 1, { ...reading, fields, relations: {} }))
}

/** Distinguishes groups from fields named `any` or `all`, which are never compared with a list. */
const isGroup = (name: string, value: unknown, fields: ConditionFields): name is 'any' | 'all' =>
  (name === 'any' || name === 'all') && (Array.isArray(value) || !Object.hasOwn(fields, name))

function readGroup(name: 'any' | 'all', value: unknown, path: string, depth: number, reading: Reading): RowTest {
  if (isAbsent(value)) return passesNone
  if (!Array.isArray(value)) return refuse(reading.errors, path, 'must be a list of conditions')
  if (name === 'all' && value.length === 0) return refuse(reading.errors, path, 'is empty, so it would match every row')
  const tests = value.map((part, at) => readMembers(part, `${path}[${at}]`, depth + 1, reading))
  return name === 'any' ? { any: tests } : allOf(tests)
}

/** Reads what a field is compared with: a value or an object of operators. */
function readField(field: ConditionField, value: unknown, path: string, reading: Reading): RowTest {
  const { errors } = reading
  if (Array.isArray(value)) return refuse(errors, path, 'cannot equal a list; use { in: [...] }')
  if (!isObject(value)) return readOperator(field, '=', value, path, reading)
  const operators = operatorsOf(field)
  const members = Object.entries(value)
  if (members.length === 0) return refuse(errors, path, `names no operator; use ${operators.join(', ')}`)
  return allOf(
    members.map(([operator, operand]) =>
      operators.includes(operator)
        ? readOperator(field, operator, operand, `${path}.${operator}`, reading)
        : refuse(errors, path, `does not support '${operator}': ${hint(operator, operators)}`),
    ),
  )
}

const sqlOperators: Readonly<Record<string, TestOperator>> = {
  ...{ '=': '=', in: 'in', not: '<>', prefix: 'prefix' },
  ...{ from: '>=', to: '<=', before: '<', after: '>' },
}

function readOperator(
  field: ConditionField,
  operator: string,
  operand: unknown,
  path: string,
  reading: Reading,
): RowTest {
  reading.size.comparisons++
  const { on, kind } = field
  if (isAbsent(operand)) return passesNone
  if (operator === 'null') {
    if (typeof operand !== 'boolean') return refuse(reading.errors, path, 'must be true or false')
    return { on, op: operand ? 'absent' : 'present', values: [] }
  }
  if (kind === 'json') return refuse(reading.errors, path, 'cannot be compared; use { null: true } or { null: false }')
  if (Array.isArray(operand) !== (operator === 'in')) {
    return refuse(
      reading.errors,
      path,
      operator === 'in' ? 'must be a list of values' : 'must be one value, not a list',
    )
  }
  const values = readValues(field, operand, path, reading)
  const op = sqlOperators[operator] as TestOperator
  // None of the values can be stored: `<>` matches every row, and the other operators match none.
  if (values.length === 0) return op === '<>' ? passesAll : passesNone
  const test: ColumnTest = { on, op, values }
  if (field.index === undefined || (op !== '=' && op !== 'in')) return test
  // Equal texts are also equal when case-folded, so the index of the companion column can find them.
  const index: ColumnTest = { on: field.index, op, values: values.map((value) => caseFold(String(value))) }
  return { all: [index, test] }
}

/** Returns the stored forms of one value or of a list of values, without values that no row can have. */
function readValues(field: ConditionField, operand: unknown, path: string, reading: Reading): StoredValue[] {
  const isList = Array.isArray(operand)
  const operands: unknown[] = isList ? operand : [operand]
  reading.size.values += operands.length
  // If there are too many values, they are not read; `readCondition` reports a single error.
  if (reading.size.values > maxCondition.values) return []
  return operands.flatMap((value, at) => {
    if (isAbsent(value)) return []
    const read = readValue(field, value, reading.today)
    if ('value' in read) return read.value === null ? [] : [read.value]
    refuse(reading.errors, isList ? `${path}[${at}]` : path, `${read.error}, not ${shown(value)}`)
    return []
  })
}

const allOf = (tests: RowTest[]): RowTest => (tests.length === 1 ? (tests[0] as RowTest) : { all: tests })

function refuse(errors: ConditionFault[], path: string, message: string): RowTest {
  errors.push({ path, message })
  return passesNone
}

function hint(name: string, known: readonly string[]): string {
  const suggestion = nearest(name, known)
  return suggestion === undefined ? `use ${known.join(', ')}` : `did you mean ${suggestion}?`
}

/** Formats a value for an error message, without the content of objects. */
function shown(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 40))
  return typeof value === 'object' ? 'an object' : String(value)
}
