import type { RawBuilder } from 'kysely'
import { passes, type TestedRow } from '../../storage/rows/row-passes.ts'
import { type RowTest, testSql } from '../../storage/rows/row-test.ts'
import { ConditionError } from './condition.ts'
import type { ConditionField, ConditionFields } from './fields.ts'
import { type ConditionContext, type ConditionFault, readCondition } from './read-condition.ts'
import { comparedValue } from './values.ts'

/** Returns every error in a condition: unknown names, wrong operators, values of the wrong type, and excessive size. */
export const checkCondition = (
  condition: unknown,
  fields: ConditionFields,
  along: Pick<ConditionContext, 'relations' | 'refused'> = {},
): string[] => readCondition(condition, { ...along, fields, today: () => '2000-01-01' }).errors.map(sentence)

const sentence = ({ path, message }: ConditionFault) => `${path || 'it'} ${message}`

/** Compiles a condition to a test for rows. Throws `ConditionError`. */
export function conditionTest(condition: unknown, context: ConditionContext): RowTest {
  const { test, errors } = readCondition(condition, context)
  if (errors.length > 0) throw new ConditionError(errors.map(sentence))
  return test
}

/**
 * Returns a condition as an SQL expression that is true or false for each row, never null; `table` is the table's name
 * in the statement. Throws `ConditionError`.
 */
export const conditionSql = (condition: unknown, context: ConditionContext & { table?: string }): RawBuilder<boolean> =>
  testSql(conditionTest(condition, context), { table: context.table })

/**
 * Returns true if a row in the API's representation meets a condition, with the same result as `conditionSql`. Throws
 * `ConditionError`.
 */
export const matchesCondition = (
  condition: unknown,
  row: Readonly<Record<string, unknown>>,
  context: ConditionContext,
): boolean => rowPasses(conditionTest(condition, context), row, context)

/** The fields and relations that a resource's conditions can name. */
type Named = Pick<ConditionContext, 'fields' | 'relations'>

/**
 * Returns true if a row in the API's representation passes a test. The row contains its related rows as members named
 * after the relations.
 */
export const rowPasses = (test: RowTest, row: Readonly<Record<string, unknown>>, named: Named): boolean =>
  passes(test, testedRow(row, named))

const testedRow = (row: Readonly<Record<string, unknown>>, { fields, relations = {} }: Named): TestedRow => ({
  valueIn: (on) => comparedValue(fields[on.field] as ConditionField, on, row[on.field]),
  relatedBy: ({ name }) => {
    const related = row[name] ?? null
    return related === null ? null : testedRow(related as typeof row, relations[name] as Named)
  },
})
