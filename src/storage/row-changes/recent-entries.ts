import type { RowId } from '../ids.ts'

type Members = Readonly<Record<string, unknown>>

/** A change as stored in the log. */
export interface LoggedFields {
  noun: string
  change: 'created' | 'updated' | 'deleted'
  id: RowId
  /** The row before the change; null if it did not exist or is not known. */
  before: Members | null
  /** The row after the change; null for a deletion. */
  after: Members | null
}

/** An entry of the log. */
export interface LogEntry {
  seq: number
  tag: string
  /** All or some changes of a transaction, oldest first, as a JSON array of `LoggedFields`. */
  changes: string
}

/** Maximum total length of the entries in memory, in characters. */
const maxLength = 2_000_000

/** Caches the latest entries that this connection has committed. */
export function recentEntries() {
  const entries: LogEntry[] = []
  let length = 0
  const removeFirst = (count: number) => {
    for (const removed of entries.splice(0, count)) length -= removed.changes.length
  }
  return {
    add: (entry: LogEntry): void => {
      const last = entries.at(-1)
      // After a gap in `seq`, drop all earlier entries: the missing ones are marks or were written by another
      // connection.
      if (last && entry.seq !== last.seq + 1) removeFirst(entries.length)
      entries.push(entry)
      length += entry.changes.length
      // Remove half of the entries at once, because removing a single one takes as long.
      if (length > maxLength) removeFirst(Math.ceil(entries.length / 2))
    },
    /** Returns the entries after the one with this `seq`; none if the first of them is not cached. */
    after: (seq: number): readonly LogEntry[] => {
      const first = entries[0]?.seq
      return first === undefined || seq + 1 < first ? [] : entries.slice(seq + 1 - first)
    },
  }
}
