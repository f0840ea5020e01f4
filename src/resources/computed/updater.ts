import type { Queryable } from '../../storage/database.ts'
import type { RowPrecondition } from '../../storage/rows/precondition.ts'
import type { Row } from '../../storage/rows/rows.ts'
import type { Deletion } from '../relations/reference.ts'

type Values = Readonly<Record<string, unknown>>

/** Identifies a row. */
export interface RowId {
  table: string
  id: number
}

/**
 * Updates the totals that a write changes, each row with a new revision and its event; those for which `isGone` are left out.
 * Returns the rows. Throws 422 for a total that does not fit.
 */
export type Settle = (
  by: Pick<Deletion, 'caller' | 'now'>,
  isGone?: (row: RowId) => boolean,
) => Promise<(RowId & { row: Row })[]>

/**
 * Maintains the sums and counts over the rows of a resource. Each function locks the rows that show them, before any row of
 * the resource is locked, and returns what to call after the write in the same transaction.
 */
export interface TotalsUpdater {
  created: (tx: Queryable, values: Values) => Promise<Settle>
  /** Undefined if there is no row that meets the precondition. */
  changed: (tx: Queryable, id: number, values: Values, precondition: RowPrecondition) => Promise<Settle | undefined>
  /** The same for rows to delete: undefined if there are none that meet the precondition. */
  removed: (tx: Queryable, ids: readonly number[], precondition: RowPrecondition) => Promise<Settle | undefined>
}
