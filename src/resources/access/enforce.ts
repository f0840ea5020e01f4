import type { Caller } from '../../http/policies/authenticate.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Queryable } from '../../storage/database.ts'
import { maxId, type RowId } from '../../storage/ids.ts'
import type { JudgedRow } from '../../storage/rows/judged-rows.ts'
import { caseFold, type ListQuery } from '../../storage/rows/page-query.ts'
import { type ColumnTest, hasRelation, passesAll, type RowTest } from '../../storage/rows/row-test.ts'
import type { Row } from '../../storage/rows/rows.ts'
import { rowPasses } from '../conditions/conditions.ts'
import { todayIn } from '../conditions/today.ts'
import type { CollectionOptions, Declaration, Served } from '../declaration.ts'
import { type AccessOf, accessFor, allOf, type CallerFacts, type Reach, type RowAccess } from './rules.ts'

/** The result of evaluating rules, with the scopes and the day for which it is valid. */
interface Evaluated {
  access: RowAccess
  scopes: ReadonlySet<string>
  /** The day, such as `2026-03-01`, if a condition compares with `'today'`; otherwise null. */
  day: string | null
}

/**
 * Returns the function that evaluates a resource's access rules; undefined if it has none. Rules are pure, so the
 * result for a caller's facts is reused until the day or the token's scopes change.
 */
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
  const evaluated = new WeakMap<CallerFacts, Evaluated>()
  return async (caller) => {
    const facts = await factsOf(caller)
    const known = evaluated.get(facts)
    if (known?.scopes === caller.scopes && (known.day === null || known.day === today())) return known.access
    let day: string | null = null
    const dayOfRules = () => (day ??= today())
    try {
      const result = accessFor(access, caller, facts, dayOfRules)
      evaluated.set(facts, { access: result, scopes: caller.scopes, day })
      return result
    } catch (error) {
      throw new Error(`The access rules of ${path} failed`, { cause: error })
    }
  }
}

type Judged = Pick<Served, 'declaration' | 'rows'>

/** Reads a row and applies the rules to it: in memory, or in the same statement if the rules depend on related rows. */
export async function findJudged(
  { declaration, rows }: Judged,
  id: RowId,
  access: RowAccess | undefined,
): Promise<JudgedRow<Row> | undefined> {
  if (access && (hasRelation(access.read) || hasRelation(access.write))) return rows.judged(id, access)
  const row = await rows.find(id)
  const passesRule = (test: RowTest | undefined) =>
    row === undefined || test === undefined || isPassed(declaration, test, row)
  return row && { row, canRead: passesRule(access?.read), canWrite: passesRule(access?.write) }
}

/**
 * Returns true if a row passes a rule's test. Converts a view's row first, because the test uses the collection's field
 * names.
 */
const isPassed = ({ access, view }: Declaration, test: RowTest, row: Row): boolean =>
  access === undefined || rowPasses(test, view ? view.toOwn(row) : row, access)

/** Returns the problem for a refused write. It identifies the resource, but not the row. */
export const notWritable = ({ path }: Declaration, purpose: 'change' | 'store') =>
  new Problem('PERMISSION_DENIED', `The access rules of ${path} do not allow the caller to ${purpose} this`)

/**
 * Throws PERMISSION_DENIED unless the caller can write the row in its new state. Without this check, a write could move
 * a row into or out of the reach of other callers.
 */
export async function assertStorable(
  { declaration, rows }: Judged,
  tx: Queryable,
  access: RowAccess,
  row: Row,
): Promise<void> {
  const isWritable = hasRelation(access.write)
    ? await rows.passes(tx, row.id, access.write)
    : isPassed(declaration, access.write, row)
  if (!isWritable) throw notWritable(declaration, 'store')
}

/**
 * Returns the only comparison in a test if it is an equality with a stored value; otherwise undefined. For text with a
 * companion column, the test compares both columns, but equal stored text implies equal case-folded text.
 */
function equalityOf(test: RowTest): ColumnTest | undefined {
  const [index, stored, ...others] = 'all' in test && test.all.length > 1 ? test.all : [undefined, test]
  if (others.length > 0 || !isEquality(stored) || stored.on.keyColumn !== undefined) return undefined
  if (index === undefined) return stored
  const isImplied =
    isEquality(index) &&
    index.on.keyColumn !== undefined &&
    index.on.field === stored.on.field &&
    index.values[0] === caseFold(String(stored.values[0]))
  return isImplied ? stored : undefined
}

const isEquality = (test: RowTest | undefined): test is ColumnTest =>
  test !== undefined && 'on' in test && test.op === '=' && test.values.length === 1

/**
 * Returns a list's query, restricted to the rows that a caller can read. A single equality becomes a filter, so that
 * the page is read from an index.
 */
export function readable(query: ListQuery, read: RowTest, declaration: Declaration): ListQuery {
  if (read === passesAll) return query
  const equality = equalityOf(read)
  if (equality && query.where === undefined) {
    const { field } = equality.on
    const { filters, folded } = declaration.view?.collection ?? declaration
    const member = declaration.view?.memberOf(field) ?? field
    const [value] = equality.values
    // A filter with an integer outside the column's range would cause an error; the condition in `where` allows it.
    const isInRange = !equality.on.isNarrow || Math.abs(Number(value)) <= maxId
    const hasIndex = field === 'id' || field === 'createdBy' || filters.includes(field)
    if (hasIndex && isInRange && value !== undefined) {
      const isExact = folded.includes(field) && { exact: true as const }
      return { ...query, filters: [...query.filters, { field: member, op: '=', value, ...isExact }] }
    }
  }
  return { ...query, where: query.where ? allOf(query.where, read) : read }
}

/**
 * Returns a function that evaluates the access rules of several collections for a caller; undefined if none has rules.
 * It resolves to a lookup: for a collection, the test that selects the rows the caller can read.
 */
export function reachOf(
  declarations: readonly Declaration[],
  options: Pick<CollectionOptions, 'factsOf' | 'now' | 'zone'>,
): ((caller: Caller) => Promise<Reach>) | undefined {
  const rules = new Map<string, AccessOf>()
  for (const declaration of declarations) {
    const access = accessOf(declaration, options)
    if (access) rules.set(declaration.path, access)
  }
  if (rules.size === 0) return undefined
  return async (caller) => {
    const tests = new Map<string, RowTest>()
    for (const [path, access] of rules) tests.set(path, (await access(caller)).read)
    return ({ path }) => tests.get(path) ?? passesAll
  }
}
