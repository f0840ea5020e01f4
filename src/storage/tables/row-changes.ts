import type { ColumnType, Generated } from 'kysely'

/** A change to a row of a watched resource, or the mark that a watch begins with. */
export interface RowChangesTable {
  seq: Generated<number>
  /** The position in the order of commits; null on SQLite, where it is `seq`, and until the change is numbered. */
  position: ColumnType<number | null, never, number>
  /** Random text that distinguishes the change from one with the same position in another copy of the database. */
  tag: string
  noun: string
  change: 'created' | 'updated' | 'deleted' | 'mark'
  /** The row's id as text; null for a mark. */
  rowId: string | null
  /** The row's revision after the change; null for a deletion and a mark. */
  revision: number | null
  /**
   * The row after the change, with the facts that access rules compare, as a JSON object. Null for a deletion and a
   * mark.
   */
  after: string | null
  /**
   * The row before the change: for an update, only the members that differ from `after`. Null if the row did not exist
   * or is not known.
   */
  before: string | null
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
