import { type RawBuilder, sql } from 'kysely'
import { idOrNone, type RowId } from '../ids.ts'
import { isUnmodifiedSince } from './revision.ts'
import { type RowTest, testSql } from './row-test.ts'

/** The precondition of a change, which becomes part of the UPDATE or DELETE statement itself. */
export interface RowPrecondition {
  matches?: 'any' | readonly number[]
  differs?: 'any' | readonly number[]
  unmodifiedSince?: string
  /** A test that the row must pass. */
  passes?: RowTest | undefined
}

/** Returns the condition for the row with this id. */
export const hasId = (id: RowId): RawBuilder<boolean> => sql<boolean>`id = ${idOrNone(id)}`

interface Filterable {
  where: ((column: string, op: string, value: unknown) => Filterable) & ((is: RawBuilder<boolean>) => Filterable)
}

/** Adds the precondition to the WHERE clause, so that the check and the change are atomic. */
export function wherePrecondition<Q>(query: Q, { matches, differs, unmodifiedSince, passes }: RowPrecondition): Q {
  let matching = query as Filterable
  if (matches !== undefined && matches !== 'any')
    matching = matching.where('revision', 'in', matches.length > 0 ? matches : [-1])
  if (differs === 'any') matching = matching.where('revision', '<', 0)
  else if (differs !== undefined && differs.length > 0) matching = matching.where('revision', 'not in', differs)
  if (unmodifiedSince !== undefined) matching = matching.where(isUnmodifiedSince(unmodifiedSince))
  if (passes !== undefined) matching = matching.where(testSql(passes, { isEach: true }))
  return matching as Q
}
