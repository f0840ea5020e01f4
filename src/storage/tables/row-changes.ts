import type { ColumnType, Generated } from 'kysely'

/** An entry in the log of changes: up to 16 changes that were committed together, or an empty entry, written when the
 * logging of a resource begins. */
export interface RowChangesTable {
  seq: Generated<number>
  /** The position in the order of commits; null on SQLite, where it is `seq`, and until the entry is numbered. */
  position: ColumnType<number | null, never, number>
  /** Random text that distinguishes the entry from one with the same position in another copy of the database. */
  tag: string
  /** The changes (`LoggedFields`) as a JSON array, oldest first; empty if the logging of a resource began here. */
  changes: string
  /** When the first change was made. */
  createdAt: string
}

/** A resource whose changes are logged. */
interface RowWatchesTable {
  noun: string
  /** The `seq` of the empty entry: the log is complete for the resource from here on. */
  since: number
  until: string
}

export interface ChangeLogTables {
  rowChanges: RowChangesTable
  rowWatches: RowWatchesTable
}
