import { type RawBuilder, sql } from 'kysely'
import type { IdType } from '../ids.ts'
import { wideInteger } from './column-codec.ts'

/**
 * A value in its column's stored form; text may be case-folded, and decimals are text with the scale of their column.
 */
export type StoredValue = string | number

/** The column that a test compares. */
export interface TestedColumn {
  field: string
  /** The SQL name of the column that contains the value. */
  column: string
  /** The SQL name of the companion column if comparisons ignore case and Unicode form. */
  keyColumn?: string
  /** True if the companion column contains an empty string instead of null in rows without a value. */
  isBlank?: true
  /** True if the compared column is sorted bytewise, so that its index can find a prefix. */
  sortsByBytes?: true
  /** True if the column is narrower than the values compared with it. */
  isNarrow?: true
  /** True if the column contains UUIDs. */
  isUuid?: true
  /** True if decimals are stored as 64-bit integers (`Codec.isWide`). */
  isWide?: true
}

export type TestOperator = '=' | '<>' | '>' | '>=' | '<' | '<=' | 'in' | 'prefix' | 'absent' | 'present'

/**
 * Compares one column: `absent` and `present` take no value, `in` takes any number of values, and all others take one.
 */
export interface ColumnTest {
  on: TestedColumn
  op: TestOperator
  values: readonly StoredValue[]
}

/** A reference from a row to a related row. */
export interface RelationStep {
  /** The name of the relation, such as `customer`. */
  name: string
  /** The column that contains the reference. */
  on: TestedColumn
  /** The tables of the row and of the related row. */
  table: string
  target: string
  /** The type of the ids in the target. */
  targetIds: IdType
}

/** Passes rows whose related row passes a test. */
export interface RelationTest {
  along: RelationStep
  related: RowTest
}

/**
 * A row condition as data, after validation. For every row, it is either true or false, never unknown; a row without a
 * value passes only `<>` and `absent`. An empty `any` passes no rows; an empty `all` passes every row.
 */
export type RowTest =
  | { any: readonly RowTest[] }
  | { all: readonly RowTest[] }
  | { not: RowTest }
  | ColumnTest
  | RelationTest

export const passesNone: RowTest = { any: [] }
export const passesAll: RowTest = { all: [] }

/** Returns a test of the related row; rows without a reference never pass. */
export function relatedTest(along: RelationStep, related: RowTest): RowTest {
  if (related === passesNone) return passesNone
  return related === passesAll ? { on: along.on, op: 'present', values: [] } : { along, related }
}

/** Returns true for a test that depends on rows other than the tested one. */
export function hasRelation(test: RowTest): boolean {
  if ('along' in test) return true
  if ('not' in test) return hasRelation(test.not)
  return !('on' in test) && ('any' in test ? test.any : test.all).some(hasRelation)
}

/** Returns the columns of the tested row that a test compares, including those that contain references. */
export function testedColumns(test: RowTest): Set<string> {
  if ('along' in test) return new Set([test.along.on.column])
  if ('not' in test) return testedColumns(test.not)
  if ('on' in test) return new Set([test.on.column, ...(test.on.keyColumn === undefined ? [] : [test.on.keyColumn])])
  return new Set(('any' in test ? test.any : test.all).flatMap((part) => [...testedColumns(part)]))
}

export interface TestSqlOptions {
  /** The name or alias of the table; none by default. */
  table?: string | undefined
  /** Returns the expression for a value in the statement; by default, a parameter with the value. */
  bind?: (value: StoredValue | bigint, on: TestedColumn) => unknown
  /** True to prevent the use of column indexes. */
  isHidden?: boolean
  /**
   * True to look up the related row of each tested row, which is faster for few rows. By default, the related rows are
   * selected first.
   */
  isEach?: boolean
  /** How many references lead from the tested row to the current table. */
  steps?: number
}

/** Returns the test as an SQL expression, with the same result on both engines. */
export function testSql(test: RowTest, options: TestSqlOptions = {}): RawBuilder<boolean> {
  if ('on' in test) return columnSql(test, options)
  if ('along' in test) return relationSql(test, options)
  // A comparison with null is unknown, and its negation would be as well.
  if ('not' in test) return sql`(case when ${testSql(test.not, options)} then 0 else 1 end = 1)`
  const [tests, word] = 'any' in test ? [test.any, ' or '] : [test.all, ' and ']
  if (tests.length === 0) return 'any' in test ? sql`1 = 0` : sql`1 = 1`
  const parts = tests.map((part) => testSql(part, options))
  return sql`(${sql.join(parts, sql.raw(word))})`
}

/**
 * Qualifies the reference with the tested row's table, because the related table may have columns with the same names.
 */
function relationSql({ along, related }: RelationTest, options: TestSqlOptions): RawBuilder<boolean> {
  const { table = along.table, steps = 0, isEach } = options
  const name = `related_${steps}`
  const id = sql.ref(`${name}.id`)
  const reference = sql.ref(`${table}.${along.on.column}`)
  const passing = testSql(related, { ...options, isHidden: false, table: name, steps: steps + 1 })
  const from = sql`from ${sql.table(along.target)} as ${sql.ref(name)}`
  return isEach
    ? sql`exists (select 1 ${from} where ${id} = ${reference} and ${passing})`
    : sql`(${reference} is not null and ${reference} in (select ${id} ${from} where ${passing}))`
}

function columnSql({ on, op, values }: ColumnTest, options: TestSqlOptions): RawBuilder<boolean> {
  const { table, bind = (value) => value, isHidden } = options
  const column = (name: string) => sql.ref(table === undefined ? name : `${table}.${name}`)
  const [stored, named] = [column(on.column), column(on.keyColumn ?? on.column)]
  const compared = isHidden ? sql`coalesce(${named}, ${named})` : named
  const bound = (value: StoredValue) => {
    const parameter = bind(on.isWide ? wideInteger(String(value)) : value, on)
    return on.isNarrow ? sql`cast(${parameter} as bigint)` : sql`${parameter}`
  }
  const [value = ''] = values
  if (op === 'absent') return sql`${stored} is null`
  if (op === 'present') return sql`${stored} is not null`
  if (op === '<>') return sql`(${compared} <> ${bound(value)} or ${stored} is null)`
  const comparison =
    op === 'in'
      ? sql<boolean>`${compared} in (${sql.join(values.map(bound))})`
      : op === 'prefix'
        ? prefixSql(compared, String(value), on, bound)
        : sql<boolean>`${compared} ${sql.raw(op)} ${bound(value)}`
  // A row without a value must not match the empty string in its companion column.
  return on.keyColumn !== undefined && on.isBlank ? sql`(${comparison} and ${stored} is not null)` : comparison
}

/**
 * Matches text with a prefix: by a range if the column is sorted bytewise, otherwise by comparing the start of the
 * text.
 */
function prefixSql(
  column: RawBuilder<unknown>,
  prefix: string,
  { sortsByBytes }: TestedColumn,
  bound: (value: StoredValue) => RawBuilder<unknown>,
): RawBuilder<boolean> {
  const text = (value: string) => sql`cast(${bound(value)} as text)`
  if (!sortsByBytes) return sql`substr(${column}, 1, length(${text(prefix)})) = ${text(prefix)}`
  const end = endOfPrefix(prefix)
  return end === undefined
    ? sql`${column} >= ${bound(prefix)}`
    : sql`(${column} >= ${bound(prefix)} and ${column} < ${bound(end)})`
}

const maxCodePoint = 0x10_ff_ff
const [firstSurrogate, afterSurrogates] = [0xd8_00, 0xe0_00]

/** Returns the first text, in code point order, after all texts with this prefix; undefined if there is none. */
export function endOfPrefix(prefix: string): string | undefined {
  const points = [...prefix].map((character) => character.codePointAt(0) as number)
  while (points.at(-1) === maxCodePoint) points.pop()
  const last = points.pop()
  if (last === undefined) return undefined
  const next = last + 1 === firstSurrogate ? afterSurrogates : last + 1
  return String.fromCodePoint(...points, next)
}
