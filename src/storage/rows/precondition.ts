import type { RawBuilder } from 'kysely'
import { isUnmodifiedSince } from './revision.ts'

/** The precondition of a change; becomes part of the UPDATE or DELETE itself. */
export interface RowPrecondition {
  matches?: 'any' | readonly number[]
  differs?: 'any' | readonly number[]
  unmodifiedSince?: string
}

interface Filterable {
  where: ((column: string, op: string, value: unknown) => Filterable) & ((is: RawBuilder<boolean>) => Filterable)
}

/** Adds the precondition to the WHERE clause, so that check and change are atomic. */
export function wherePrecondition<Q>(query: Q, { matches, differs, unmodifiedSince }: RowPrecondition): Q {
  let matching = query as Filterable
  if (matches !== undefined && matches !== 'any')
    matching = matching.where('revision', 'in', matches.length > 0 ? matches : [-1])
  if (differs === 'any') matching = matching.where('revision', '<', 0)
  else if (differs !== undefined && differs.length > 0) matching = matching.where('revision', 'not in', differs)
  if (unmodifiedSince !== undefined) matching = matching.where(isUnmodifiedSince(unmodifiedSince))
  return matching as Q
}
