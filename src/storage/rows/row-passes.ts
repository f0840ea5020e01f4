import { wideInteger } from './column-codec.ts'
import type { RelationStep, RowTest, StoredValue, TestedColumn, TestOperator } from './row-test.ts'

/** A row in memory, on which a `RowTest` can be evaluated without SQL. */
export interface TestedRow {
  /** Returns the column's value in the form that a `RowTest` compares. */
  valueIn: (column: TestedColumn) => StoredValue | null
  /** Returns the related row; null if there is none. */
  relatedBy: (step: RelationStep) => TestedRow | null
}

/** Returns true if a row passes a test. */
export function passes(test: RowTest, row: TestedRow): boolean {
  if ('any' in test) return test.any.some((part) => passes(part, row))
  if ('all' in test) return test.all.every((part) => passes(part, row))
  if ('along' in test) {
    const other = row.relatedBy(test.along)
    return other !== null && passes(test.related, other)
  }
  if ('not' in test) return !passes(test.not, row)
  const { on, op, values } = test
  const value = row.valueIn(on)
  if (value === null) return op === 'absent' || op === '<>'
  if (op === 'absent' || op === 'present') return op === 'present'
  const comparable = (one: StoredValue) => (on.isWide ? wideInteger(String(one)) : one)
  return comparisons[op](comparable(value), values.map(comparable))
}

type Comparable = StoredValue | bigint
type Comparison = (value: Comparable, values: readonly Comparable[]) => boolean

/**
 * Ordered comparisons support only numbers, and text of digits and ASCII signs, because JavaScript and both databases
 * sort these alike.
 */
const comparisons: Record<Exclude<TestOperator, 'absent' | 'present'>, Comparison> = {
  '=': (value, [other]) => value === other,
  '<>': (value, [other]) => value !== other,
  '>': (value, [other]) => value > (other as Comparable),
  '>=': (value, [other]) => value >= (other as Comparable),
  '<': (value, [other]) => value < (other as Comparable),
  '<=': (value, [other]) => value <= (other as Comparable),
  in: (value, others) => others.includes(value),
  prefix: (value, [prefix]) => String(value).startsWith(String(prefix)),
}
