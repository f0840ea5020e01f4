import type { ListConditions } from './list-conditions.ts'
import type { Presenter } from './present.ts'
import type { TotalsUpdater } from './updater.ts'

/** What the routes of a resource need for computed and derived fields. */
export interface ServedComputed {
  /** Adds what rows show besides what is stored; undefined if that is nothing. */
  presenter: Presenter | undefined
  /** Resolves the conditions that lists can be filtered by; undefined if there are none. */
  listConditions: ListConditions | undefined
  /** Maintains the sums and counts over the rows; undefined if there are none. */
  totals: TotalsUpdater | undefined
}
