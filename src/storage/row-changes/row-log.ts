import type { Compilable, Kysely } from 'kysely'
import type { RowId } from '../ids.ts'
import type { Tables } from '../tables/tables.ts'
import { type LogEntry, type LoggedFields, recentEntries } from './recent-entries.ts'

/** A change to log. */
export interface NewChange {
  noun: string
  change: LoggedFields['change']
  id: RowId
  /** The row's revision after the change; for a deletion, its last revision. */
  revision: number
  /** The row before the change as JSON text; null if it did not exist or is not known. */
  before: string | null
  /** The row after the change as JSON text; null for a deletion. */
  after: string | null
  createdAt: string
}

type Transaction = Kysely<Tables>

/** The log of changes to rows, for event streams. A transaction that rolls back logs nothing. */
export interface RowLog {
  /**
   * Logs a change in the transaction that makes it. All changes of a transaction are written just before it commits.
   */
  add: (tx: Transaction, change: NewChange) => void
  /**
   * Returns a cached row as JSON text: the version that this transaction logged last, or else this revision, if a
   * recent transaction on this connection logged it. Returns null if neither is cached.
   */
  loggedRow: (tx: Transaction, noun: string, id: RowId, revision: number) => string | null
  /** Returns the entries after the one with this `seq`; none if they are not cached. */
  entriesAfter: (seq: number) => readonly LogEntry[]
}

interface RowLogOptions {
  /** Returns the changes that a transaction has logged so far. */
  pendingIn: (tx: Transaction) => NewChange[]
  /** Runs `insertEntry` with the values of its columns. */
  insert: (tx: Transaction, values: readonly unknown[]) => Promise<{ rows: { seq: number }[] }>
  /** A random text from `newTag`. */
  tag: string
}

/**
 * Returns random text to tag a process's entries, so that they differ from entries at the same positions in a copy of
 * the database.
 */
export const newTag = (randomUuid: () => string): string => randomUuid().slice(0, 8)

/** The maximum number of changes in an entry of the log. */
export const maxPerEntry = 16

/** The number of cached rows, one per remainder of an id, and the maximum length of a cached row's JSON text. */
const [slots, maxKeptLength] = [8_192, 1_024]

/** Returns the statement that inserts an entry of the log: its tag, its changes and the time of the first one. */
export const insertEntry = (db: Kysely<Tables>): Compilable<{ seq: number }> =>
  db.insertInto('rowChanges').values({ tag: '', changes: '', createdAt: '' }).returning('seq')

/**
 * Creates the log of a database. Each transaction must call `write` before it commits, and `committed` afterwards.
 * `committed` receives the logged changes and, if the engine commits in the order of `seq`, the entries that `write`
 * returned.
 */
export function rowLog({ pendingIn, insert, tag }: RowLogOptions) {
  const recent = recentEntries()
  const kept: (Pick<NewChange, 'noun' | 'id' | 'revision' | 'after'> | undefined)[] = Array(slots).fill(undefined)
  const log: RowLog = {
    add: (tx, change) => void pendingIn(tx).push(change),
    loggedRow: (tx, noun, id, revision) => {
      const own = pendingIn(tx).findLast((change) => change.id === id && change.noun === noun)
      if (own?.after) return own.after
      const found = kept[slotOf(id)]
      return found?.id === id && found.noun === noun && found.revision === revision ? found.after : null
    },
    entriesAfter: recent.after,
  }
  return {
    ...log,
    write: async (tx: Transaction): Promise<LogEntry[]> => {
      const pending = pendingIn(tx)
      const written: LogEntry[] = []
      for (let at = 0; at < pending.length; at += maxPerEntry) {
        const entry = pending.slice(at, at + maxPerEntry)
        const text = `[${entry.map(textOf).join()}]`
        const { rows } = await insert(tx, [tag, text, entry[0]?.createdAt])
        const [{ seq }] = rows as [{ seq: number }]
        written.push({ seq, tag, changes: text })
      }
      return written
    },
    committed: (changes: readonly NewChange[], written: readonly LogEntry[]): void => {
      for (const { noun, id, revision, after } of changes) {
        const isKept = after !== null && after.length <= maxKeptLength
        kept[slotOf(id)] = isKept ? { noun, id, revision, after } : undefined
      }
      for (const entry of written) recent.add(entry)
    },
  }
}

/** Returns the JSON text of a change (`LoggedFields`). */
const textOf = ({ noun, change, id, before, after }: NewChange): string =>
  `{"noun":${JSON.stringify(noun)},"change":"${change}","id":${JSON.stringify(id)},"before":${before},"after":${after}}`

/** Returns the row's index in the cache. The last digits of a UUID are random, so they spread evenly. */
const slotOf = (id: RowId): number => (typeof id === 'number' ? id : Number.parseInt(id.slice(-4), 16)) % slots
