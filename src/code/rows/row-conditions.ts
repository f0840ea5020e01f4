import type { Caller } from '../../http/policies/authenticate.ts'
import { listConditions } from '../../resources/computed/list-conditions.ts'
import { shownDeclaration } from '../../resources/computed/options.ts'
import { conditionTest } from '../../resources/conditions/conditions.ts'
import {
  type ConditionFields,
  type ConditionRelation,
  conditionFields,
  relationStep,
} from '../../resources/conditions/fields.ts'
import { todayIn } from '../../resources/conditions/today.ts'
import { createdByField } from '../../resources/constraints/locked.ts'
import type { Declaration, Served } from '../../resources/declaration.ts'
import { type Reached, restrictRelated } from '../../resources/queries/related-filters.ts'
import { passesAll, type RowTest } from '../../storage/rows/row-test.ts'

/**
 * Returns the test for a condition. Without a condition, it matches every row. With a caller, related rows that the
 * caller cannot read match no condition. Rejects with `ConditionError` if the condition is invalid.
 */
export type ReadCondition = (condition: unknown, caller?: Caller) => Promise<RowTest>

/** Returns a function that converts conditions on a collection's rows to tests. */
export function conditionReader(
  { declaration, now, zone, accessTo }: Pick<Served, 'declaration' | 'now' | 'zone' | 'accessTo'>,
  all: readonly Declaration[],
): ReadCondition {
  const fields = fieldsOf(declaration)
  const related = relatedOf(declaration, all)
  const relations = Object.fromEntries(related.map(([name, target]) => [name, relationOf(declaration, name, target)]))
  const time = { now, zone }
  const computed = listConditions(declaration.computed, time)
  const reachedBy = async (caller: Caller | undefined): Promise<Reached> => {
    const entries = related.map(async ([name, target]) => {
      const access = caller && (await accessTo(target)?.(caller))
      const resolve = listConditions(target.computed, time)?.resolve ?? ((test: RowTest) => test)
      return [name, { read: access?.read ?? passesAll, resolve, day: undefined }] as const
    })
    return new Map(await Promise.all(entries))
  }
  return async (condition, caller) => {
    if (condition === undefined) return passesAll
    const test = conditionTest(condition, { fields, relations, today: todayIn(time) })
    const reachable = restrictRelated(test, await reachedBy(caller))
    return computed?.resolve(reachable) ?? reachable
  }
}

const fieldsOf = (declaration: Declaration): ConditionFields => ({
  ...conditionFields(shownDeclaration(declaration), 'letters'),
  ...(declaration.access && { createdBy: declaration.access.fields.createdBy ?? createdByField }),
})

/** Returns the collections that a collection refers to, by the names of the relations. */
const relatedOf = ({ references }: Declaration, all: readonly Declaration[]) =>
  references.flatMap(({ name, path }): [name: string, target: Declaration][] => {
    const target = all.find((one) => one.path === path)
    return target ? [[name, target]] : []
  })

function relationOf(
  { references, table, columns }: Declaration,
  relation: string,
  target: Declaration,
): ConditionRelation {
  const field = references.find(({ name }) => name === relation)?.field ?? ''
  return { step: relationStep({ name: relation, field, table, columns, target }), fields: fieldsOf(target) }
}
