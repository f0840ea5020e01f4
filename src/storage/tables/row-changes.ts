import type { ColumnType, Generated } from 'kysely'

/** An entry of the log of changes: up to 16 changes that were committed together, or the mark that a watch begins with. */
export interface RowChangesTable {
  seq: Generated<number>
  /** The position in the order of commits; null on SQLite, where it is `seq`, and until the entry is numbered. */
  position: ColumnType<number | null, never, number>
  /** Random text that distinguishes the entry from one with the same position in another copy of the database. */
  tag: string
  /** The changes (`LoggedFields`) as a JSON array, oldest first; empty for a mark. */
  changes: string
  /** When the first change was made. */
  createdAt: string
}

/** A resource whose changes are logged. */
interface RowWatchesTable {
  noun: string
  /** The `seq` of the mark: the log is complete for the resource from here on. */
  since: number
  until: string
}

export interface ChangeLogTables {
  rowChanges: RowChangesTable
  rowWatches: RowWatchesTable
}
