import { type Compilable, type Kysely, sql } from 'kysely'
import type { RowId } from '../ids.ts'
import type { Tables } from '../tables/tables.ts'

/** A change to log. */
export interface NewChange {
  noun: string
  change: LoggedFields['change']
  id: RowId
  /** The row before the change; null if it did not exist or is not known. */
  before: Members | null
  /** The row after the change; null for a deletion. */
  after: Members | null
  createdAt: string
}

/** A change as stored in the log. */
export interface LoggedFields {
  noun: string
  change: 'created' | 'updated' | 'deleted'
  id: RowId
  /** For an update, only the members that differ from `after`. */
  before: Members | null
  after: Members | null
}

type Members = Readonly<Record<string, unknown>>
type Transaction = Kysely<Tables>

/** The log of changes to rows, for event streams. A transaction that rolls back logs nothing. */
export interface RowLog {
  /** Logs a change in the transaction that makes it. A transaction writes its changes together, just before it commits. */
  add: (tx: Transaction, change: NewChange) => void
  /**
   * Returns a row from memory: as the transaction has logged it, or else at this revision, if a recent transaction on this
   * connection has logged it. Undefined for all others.
   */
  loggedRow: (tx: Transaction, noun: string, id: RowId, revision: number) => Members | undefined
}

/** A logged change that is not written yet. */
export interface PendingChange extends Pick<NewChange, 'noun' | 'id' | 'after' | 'createdAt'> {
  /** The change as JSON text (`LoggedFields`). */
  text: string
}

interface RowLogOptions {
  /** Returns the changes that a transaction has logged so far. */
  pendingIn: (tx: Transaction) => PendingChange[]
  /** Runs `insertEntry` with the values of its columns. */
  insert: (tx: Transaction, values: readonly unknown[]) => Promise<unknown>
  /** See `newTag`. */
  tag: string
}

/** Returns random text that distinguishes the entries of a process from those at the same position in another copy of the database. */
export const newTag = (randomUuid: () => string): string => randomUuid().slice(0, 8)

/** The maximum number of changes in an entry of the log. */
export const maxPerEntry = 16

/** The number of rows that fit in memory: one for each remainder of an id. Longer changes, as JSON text, are not kept. */
const [slots, maxKeptLength] = [8_192, 1_024]

/** Returns the statement that inserts an entry of the log: its tag, its changes and the time of the first one. */
export const insertEntry = (db: Kysely<Tables>): Compilable<never> => ({
  compile: () =>
    sql<never>`insert into row_changes (tag, changes, created_at) values (${''}, ${''}, ${''})`.compile(db),
})

/**
 * Creates the log of a database. Its transactions must call `write` before they commit, and `committed` with the
 * same changes afterwards.
 */
export function rowLog({ pendingIn, insert, tag }: RowLogOptions) {
  const kept: (Pick<NewChange, 'noun' | 'id' | 'after'> | undefined)[] = Array(slots).fill(undefined)
  const log: RowLog = {
    add: (tx, { noun, change, id, before, after, createdAt }) => {
      const fields: LoggedFields = { noun, change, id, before: changedMembers(before, after), after }
      const text = JSON.stringify(fields)
      pendingIn(tx).push({ noun, id, after, createdAt, text })
    },
    loggedRow: (tx, noun, id, revision) => {
      const own = pendingIn(tx).findLast((pending) => pending.id === id && pending.noun === noun)
      if (own?.after) return own.after
      const found = kept[slotOf(id)]
      const isFound = found?.id === id && found.noun === noun && found.after?.revision === revision
      return isFound ? (found.after ?? undefined) : undefined
    },
  }
  return {
    ...log,
    write: async (tx: Transaction): Promise<void> => {
      const pending = pendingIn(tx)
      for (let at = 0; at < pending.length; at += maxPerEntry) {
        const entry = pending.slice(at, at + maxPerEntry)
        await insert(tx, [tag, `[${entry.map(({ text }) => text).join()}]`, entry[0]?.createdAt])
      }
    },
    committed: (changes: readonly PendingChange[]): void => {
      for (const { noun, id, after, text } of changes)
        kept[slotOf(id)] = text.length > maxKeptLength ? undefined : { noun, id, after }
    },
  }
}

/** Returns the slot of a row. The last digits of a UUID are random. */
const slotOf = (id: RowId): number => (typeof id === 'number' ? id : Number.parseInt(id.slice(-4), 16)) % slots

/**
 * Returns the members of a row that differ from those after an update; null for members that the row did not have. Before a
 * deletion, returns all members.
 */
function changedMembers(before: Members | null, after: Members | null): Members | null {
  if (before === null || after === null) return before
  const changed: Record<string, unknown> = {}
  for (const name of Object.keys(after)) if (!(name in before)) changed[name] = null
  for (const name of Object.keys(before)) {
    const value = before[name] ?? null
    if (value !== (after[name] ?? null)) changed[name] = value
  }
  return changed
}
