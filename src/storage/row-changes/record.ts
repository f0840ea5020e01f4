import { type RawBuilder, sql } from 'kysely'
import type { ChangeTracker, Database, Queryable } from '../database.ts'
import type { RandomBytes, RowId } from '../ids.ts'
import type { RowChangesTable } from '../tables/row-changes.ts'

/** A change to record. */
export interface NewChange {
  noun: string
  change: Exclude<RowChangesTable['change'], 'mark'>
  id: RowId
  /** Null for a deletion. */
  revision: number | null
  before: object | null
  after: object | null
  createdAt: string
}

/** A row after a logged change, as JSON text. */
type Logged = Pick<RowChangesTable, 'after'>

/** A writer of the log. It logs changes in the transactions that make them. */
export interface ChangeRecorder {
  add: (tx: Queryable, change: NewChange) => Promise<void>
  /** Returns a row at a revision; undefined unless one of the last changes in the log created that revision. */
  loggedRow: (tx: Queryable, noun: string, id: RowId, revision: number) => Promise<object | undefined>
}

/**
 * Returns an SQL expression that is true if the changes to a resource are logged. Inside a larger statement, it costs
 * an index lookup but no round trip.
 */
export const isWatched = (noun: string): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from row_watches where row_watches.noun = ${sql.lit(noun)})`

/**
 * Returns the function that checks, inside a transaction, whether the changes to a resource are logged. It queries the
 * table of watches only after that table has changed. Only for databases with change numbers (`Database.changes`).
 */
export function watchCheck(db: Database, changes: ChangeTracker, noun: string): () => boolean {
  const find = db.prepare(db.read.selectFrom('rowWatches').select('noun').where('noun', '=', noun))
  let asOf = Number.NEGATIVE_INFINITY
  let isWatched = false
  return () => {
    const changed = changes.lastOf('row_watches')
    if (changed <= asOf) return isWatched
    const last = changes.last()
    // Another thread has just committed a watch, which this read might miss. An unneeded log entry does no harm.
    if (changed > last) return true
    const found = find.all([noun])
    if (found instanceof Promise) throw new Error('Reads of a database with change numbers must be synchronous')
    asOf = last
    isWatched = found.length > 0
    return isWatched
  }
}

/** How many of the last changes are searched for a revision. Changes by concurrent transactions are among them. */
const maxSearched = 5_000

export const changeTag = (random: RandomBytes): string => random(6).toString('base64url')

type Members = Record<string, unknown>

/** Returns the members of a row that differ from those after a change; null for members that the row did not have. */
function changedMembers(before: Members, after: Members): Members {
  const changed: Members = {}
  for (const name of Object.keys(after)) if (!(name in before)) changed[name] = null
  for (const name of Object.keys(before)) {
    const value = before[name] ?? null
    if (value !== (after[name] ?? null)) changed[name] = value
  }
  return changed
}

/** Creates the recorder of a database; its statements are compiled once. */
export function changeRecorder(db: Database, random: RandomBytes): ChangeRecorder {
  const blank = { tag: '', noun: '', change: 'created' as const, rowId: '', revision: 0, before: '', after: '' }
  const insert = db.prepare(db.read.insertInto('rowChanges').values({ ...blank, createdAt: '' }))
  // Read from the end of the log: a revision that is not committed yet is among the last changes.
  const oldest = sql<number>`(select max(seq) from row_changes) - ${sql.lit(maxSearched)}`
  const search = db.prepare<Logged>(
    db.read
      .selectFrom('rowChanges')
      .select('after')
      .where('seq', '>', oldest)
      .where('noun', '=', '')
      .where('rowId', '=', '')
      .where('revision', '=', 0)
      .orderBy('seq', 'desc')
      .limit(sql.lit(1)),
  )
  const text = (value: object | null) => (value === null ? null : JSON.stringify(value))
  const textBefore = (before: object | null, after: object | null) =>
    text(before && after ? changedMembers(before as Members, after as Members) : before)
  return {
    add: async (tx, { noun, change, id, revision, before, after, createdAt }) => {
      const texts = [textBefore(before, after), text(after)]
      await insert.in(tx, [changeTag(random), noun, change, String(id), revision, ...texts, createdAt])
    },
    loggedRow: async (tx, noun, id, revision) => {
      const [found] = (await search.in(tx, [noun, String(id), revision])).rows
      return found?.after ? JSON.parse(found.after) : undefined
    },
  }
}
