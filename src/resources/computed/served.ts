import type { ListConditions } from './list-conditions.ts'
import type { Presenter } from './present.ts'
import type { TotalsUpdater } from './updater.ts'

/** What the routes of a resource need for computed and derived fields. */
export interface ServedComputed {
  /** Adds the fields that are not stored; undefined if there are none. */
  presenter: Presenter | undefined
  /** Resolves the conditions that lists can be filtered by; undefined if there are none. */
  listConditions: ListConditions | undefined
  /** Maintains the totals over this resource's rows; undefined if there are none. */
  totals: TotalsUpdater | undefined
}
