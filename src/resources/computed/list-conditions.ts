import type { ListQuery } from '../../storage/rows/page-query.ts'
import { passes } from '../../storage/rows/row-passes.ts'
import { type ColumnTest, passesAll, passesNone, type RowTest } from '../../storage/rows/row-test.ts'
import { conditionTest } from '../conditions/conditions.ts'
import { todayIn } from '../conditions/today.ts'
import type { DeclaredComputed } from './options.ts'
import type { Time } from './present.ts'

/**
 * Replaces filters on computed conditions, such as `overdue=true`, with the conditions themselves or their negation.
 */
export interface ListConditions {
  resolve: (test: RowTest) => RowTest
  resolveQuery: (query: ListQuery) => ListQuery
}

/** Returns the functions that rewrite filters on a resource's computed conditions; undefined if it has none. */
export function listConditions({ whens }: DeclaredComputed, time: Time): ListConditions | undefined {
  if (Object.keys(whens).length === 0) return undefined
  const today = todayIn(time)
  const testOf = (name: string): RowTest | undefined => {
    const when = Object.hasOwn(whens, name) ? whens[name] : undefined
    return when && conditionTest(when.condition, { fields: when.fields, today })
  }
  const resolve = (test: RowTest): RowTest => {
    if ('any' in test) return { any: test.any.map(resolve) }
    if ('all' in test) return { all: test.all.map(resolve) }
    if ('not' in test) return { not: resolve(test.not) }
    return 'along' in test ? test : compared(test, testOf(test.on.field))
  }
  const resolveQuery = (query: ListQuery): ListQuery => {
    const tests: RowTest[] = query.where ? [resolve(query.where)] : []
    const filters = query.filters.filter((filter) => {
      const test = typeof filter.field === 'string' ? testOf(filter.field) : undefined
      if (test) tests.push(filter.value === 1 ? test : { not: test })
      return test === undefined
    })
    return { ...query, filters, ...(tests.length > 0 && { where: tests.length === 1 ? tests[0] : { all: tests } }) }
  }
  return { resolve, resolveQuery }
}

/**
 * Rewrites a test that compares a computed condition with 1 (true) or 0 (false). Tests of other fields, for which
 * `condition` is undefined, are returned unchanged.
 */
function compared(test: ColumnTest, condition: RowTest | undefined): RowTest {
  if (condition === undefined) return test
  const [isTrue, isFalse] = [1, 0].map((value) => passes(test, { valueIn: () => value, relatedBy: () => null }))
  if (isTrue === isFalse) return isTrue ? passesAll : passesNone
  return isTrue ? condition : { not: condition }
}
