import type { Caller } from '../../http/policies/authenticate.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Queryable } from '../../storage/database.ts'
import { maxId } from '../../storage/ids.ts'
import type { JudgedRow } from '../../storage/rows/judged-rows.ts'
import type { ListQuery } from '../../storage/rows/page-query.ts'
import { hasRelation, passesAll, type RowTest } from '../../storage/rows/row-test.ts'
import type { Row } from '../../storage/rows/rows.ts'
import { rowPasses } from '../conditions/conditions.ts'
import { todayIn } from '../conditions/today.ts'
import type { Declaration, Served } from '../declaration.ts'
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

type Judged = Pick<Served, 'declaration' | 'rows'>

/** Reads a row, and judges it by the rules: in memory, or in the same statement if they look at related rows. */
export async function findJudged(
  { declaration, rows }: Judged,
  id: number,
  access: RowAccess | undefined,
): Promise<JudgedRow<Row> | undefined> {
  if (access && (hasRelation(access.read) || hasRelation(access.write))) return rows.judged(id, access)
  const row = await rows.find(id)
  const passesRule = (test: RowTest | undefined) =>
    row === undefined ||
    declaration.access === undefined ||
    test === undefined ||
    rowPasses(test, row, declaration.access)
  return row && { row, canRead: passesRule(access?.read), canWrite: passesRule(access?.write) }
}

/** The refusal of a write: it identifies the resource, but no row. */
export const notWritable = ({ path }: Declaration, purpose: 'change' | 'store') =>
  new Problem('PERMISSION_DENIED', `The access rules of ${path} do not allow the caller to ${purpose} this`)

/**
 * Throws PERMISSION_DENIED unless the caller can write a row as a write has left it in its transaction, so that no write
 * moves a row into or out of another caller's reach.
 */
export async function assertStorable(
  { declaration, rows }: Judged,
  tx: Queryable,
  access: RowAccess | undefined,
  row: Row,
): Promise<void> {
  if (declaration.access === undefined || access === undefined) return
  const isWritable = hasRelation(access.write)
    ? await rows.passes(tx, row.id, access.write)
    : rowPasses(access.write, row, declaration.access)
  if (!isWritable) throw notWritable(declaration, 'store')
}

/**
 * The query of a list, restricted to the rows that a caller can read. A single equality becomes a filter, so that an index
 * bounds the page.
 */
export function readable(query: ListQuery, read: RowTest, { filters, folded }: Declaration): ListQuery {
  if (read === passesAll) return query
  if ('on' in read && read.op === '=' && query.where === undefined) {
    const { field } = read.on
    const [value] = read.values
    // An id beyond the range of the column would be an error in a filter; the test allows it.
    const isId = field === 'id' && Math.abs(Number(value)) <= maxId
    const hasIndex = isId || field === 'createdBy' || (filters.includes(field) && !folded.includes(field))
    if (hasIndex && value !== undefined) return { ...query, filters: [...query.filters, { field, op: '=', value }] }
  }
  return { ...query, where: query.where ? allOf(query.where, read) : read }
}
