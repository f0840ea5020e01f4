import type { Caller } from '../../http/policies/authenticate.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { ListQuery } from '../../storage/rows/page-query.ts'
import { passesAll, type RowTest } from '../../storage/rows/row-test.ts'
import type { Row } from '../../storage/rows/rows.ts'
import { rowPasses } from '../conditions/conditions.ts'
import { todayIn } from '../conditions/today.ts'
import type { Declaration } from '../declaration.ts'
import { type AccessOf, accessFor, allOf, type CallerFacts, type RowAccess } from './rules.ts'

/** Returns the function that evaluates a resource's access rules; undefined if it has none. */
export function accessOf(
  { access, path }: Declaration,
  {
    factsOf,
    ...time
  }: {
    factsOf: (caller: Caller) => Promise<CallerFacts>
    now: () => number
    zone?: string | undefined
  },
): AccessOf | undefined {
  if (access === undefined) return undefined
  const today = todayIn(time)
  return async (caller) => {
    const facts = await factsOf(caller)
    try {
      return accessFor(access, caller, facts, today)
    } catch (error) {
      throw new Error(`The access rules of ${path} failed`, { cause: error })
    }
  }
}

/** True if the caller can read a row; always without access rules. */
export const canRead = ({ access: rules }: Declaration, access: RowAccess | undefined, row: Row): boolean =>
  rules === undefined || access === undefined || rowPasses(access.read, row, rules.fields)

/**
 * Throws PERMISSION_DENIED, which identifies the resource but no row, unless the caller can write a row: the stored one to
 * `change` it, and the one that a write would `store`, so that no write moves a row into or out of another caller's reach.
 */
export function assertWritable(
  { access: rules, path }: Declaration,
  access: RowAccess | undefined,
  row: Row,
  purpose: 'change' | 'store',
): void {
  if (rules === undefined || access === undefined || rowPasses(access.write, row, rules.fields)) return
  throw new Problem('PERMISSION_DENIED', `The access rules of ${path} do not allow the caller to ${purpose} this`)
}

/**
 * The query of a list, restricted to the rows that a caller can read. A single equality becomes a filter, so that an index
 * bounds the page.
 */
export function readable(query: ListQuery, read: RowTest, { filters, folded }: Declaration): ListQuery {
  if (read === passesAll) return query
  if ('on' in read && read.op === '=' && query.where === undefined) {
    const { field } = read.on
    const hasIndex = field === 'createdBy' || (filters.includes(field) && !folded.includes(field))
    const [value] = read.values
    if (hasIndex && value !== undefined) return { ...query, filters: [...query.filters, { field, op: '=', value }] }
  }
  return { ...query, where: query.where ? allOf(query.where, read) : read }
}
