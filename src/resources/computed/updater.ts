import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import type { RowPrecondition } from '../../storage/rows/precondition.ts'
import type { Row } from '../../storage/rows/rows.ts'
import type { WriteBy } from '../writes/hooks.ts'
import type { ListConditions } from './list-conditions.ts'
import type { Presenter } from './present.ts'

type Values = Readonly<Record<string, unknown>>

export interface RowKey {
  table: string
  id: RowId
}

/** Coordinates the updates of totals with a deletion of several rows. */
export interface RemovalUpdates {
  /** Returns true for a row that is also being deleted. Its own totals need no update. */
  isGone: (row: RowKey) => boolean
  /**
   * Postpones an updated row's event until the end of the deletion. If the row was already updated, this event replaces
   * the earlier one.
   */
  updated: (row: RowKey, announce: () => Promise<void>) => void
}

/**
 * Updates the totals that a write affects and returns the updated rows, each with a new revision and an event. Throws
 * 422 for a total that is too large.
 */
export type Settle = (by: WriteBy, removal?: RemovalUpdates) => Promise<(RowKey & { row: Row })[]>

/**
 * Maintains the totals over a resource's rows. Each function locks the rows that store these totals before the write.
 * All functions except `lock` return a function to call after the write, in the same transaction.
 */
export interface TotalsUpdater {
  /**
   * Locks the rows whose totals include the rows with these ids or a row with `values`. Call it before locking rows of
   * the resource, so that two writes never wait for each other.
   */
  lock: (tx: Queryable, ids: readonly RowId[], values?: Values) => Promise<void>
  created: (tx: Queryable, values: Values) => Promise<Settle>
  /** Returns undefined if no row meets the precondition. */
  changed: (tx: Queryable, id: RowId, values: Values, precondition: RowPrecondition) => Promise<Settle | undefined>
  /** Like `changed`, for rows that will be deleted. */
  removed: (tx: Queryable, ids: readonly RowId[], precondition: RowPrecondition) => Promise<Settle | undefined>
}

/** The parts of a resource's routes that handle computed and derived fields. */
export interface ServedComputed {
  /** Adds the fields that are not stored; undefined if there are none. */
  presenter: Presenter | undefined
  /** Rewrites filters on computed conditions; undefined if there are none. */
  listConditions: ListConditions | undefined
  /** Maintains the totals over this resource's rows; undefined if there are none. */
  totals: TotalsUpdater | undefined
}
