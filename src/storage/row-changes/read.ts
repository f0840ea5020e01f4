import { sql } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import type { LogEntry, LoggedFields } from './recent-entries.ts'
import { maxPerEntry } from './row-log.ts'

/** A logged change. Its position `at` follows the order in which changes were committed. */
export interface LoggedChange extends LoggedFields {
  at: number
  /** The tag of the log entry that contains the change. */
  tag: string
}

/** A position in the log. It stands for all changes up to and including the change at this position. */
export interface LogPosition {
  at: number
  /** The tag of the entry at this position; empty if the log is empty. */
  tag: string
}

/** The changes in one log entry after the requested position, oldest first. `at` is the position of the last one. */
interface EntryAfter extends LogPosition {
  changes: LoggedChange[]
}

/** A reader of the log of changes. */
export interface ChangeLogReader {
  /** Returns the position of the last entry. */
  head: () => Promise<LogPosition>
  /** Returns the position of a change and the `seq` of its entry; undefined if the log does not contain it. */
  find: (at: number, tag: string) => Promise<(LogPosition & { seq: number }) | undefined>
  /**
   * Returns the log entries with changes after a position. `isEnd` is true if the log is known to have no further
   * entries.
   */
  after: (at: number) => Promise<{ entries: EntryAfter[]; isEnd: boolean }>
  /** Returns the number of the last transaction, to be passed to `hasMore`. */
  lastCommit: () => number
  /** Returns false only if no change has been logged since this transaction. */
  hasMore: (since: number) => boolean
}

/** The maximum number of entries that are read at once. */
const maxRead = 20
const maxNumbered = 1_000

/**
 * Each entry has a range of `maxPerEntry` positions. Its changes occupy the end of the range, so that every entry ends
 * at a position that can be computed.
 */
const [numberOf, endOf] = [
  (at: number) => Math.floor(at / maxPerEntry),
  (entry: number) => (entry + 1) * maxPerEntry - 1,
]

/** Creates the reader of a database's log. */
export function changeLogReader(db: Database): ChangeLogReader {
  const { commitsInOrder } = db.engine
  const number = commitsInOrder ? sql.ref<number>('seq') : sql.ref<number>('position')
  const entries = db.read.selectFrom('rowChanges')
  const page = sql<LogEntry>`
    select ${number} as seq, tag, changes from row_changes
    where ${number} >= ${0} order by ${number} limit ${sql.lit(maxRead)}`
  const next = db.prepare<LogEntry>({ compile: () => page.compile(db.read.withoutPlugins()) })
  return {
    head: async () => {
      if (!commitsInOrder) await numberAll(db)
      const last = entries
        .select([number.as('number'), 'tag'])
        .where(number, 'is not', null)
        .orderBy(number, 'desc')
      const found = await last.limit(1).executeTakeFirst()
      return found ? { at: endOf(found.number), tag: found.tag } : { at: 0, tag: '' }
    },
    find: async (at, tag) => {
      const entry = entries.select(['tag', 'seq']).where(number, '=', numberOf(at)).where('tag', '=', tag)
      const found = await entry.executeTakeFirst()
      return found && { at, ...found }
    },
    after: async (at) => {
      if (!commitsInOrder) await numberAll(db)
      // The entry that contains `at` may have further changes after it.
      const first = numberOf(at + 1)
      const recent = db.rowLog.entriesAfter(first - 1)
      // Other connections may have written further entries.
      if (recent.length > 0)
        return { entries: recent.slice(0, maxRead).map((entry) => entryAfter(at, entry)), isEnd: false }
      const stored = await next.all([first])
      return { entries: stored.map((entry) => entryAfter(at, entry)), isEnd: stored.length < maxRead }
    },
    lastCommit: () => db.changes?.last() ?? 0,
    hasMore: (since) => db.changes === null || db.changes.lastOf('row_changes') > since,
  }
}

function entryAfter(after: number, { seq, tag, changes }: LogEntry): EntryAfter {
  const logged: LoggedChange[] = JSON.parse(changes)
  const end = endOf(seq)
  for (const [index, change] of logged.entries()) Object.assign(change, { at: end - logged.length + 1 + index, tag })
  return { at: end, tag, changes: logged.filter(({ at }) => at > after) }
}

/**
 * Assigns positions to the committed entries that have none, if the engine does not commit in the order of `seq`. An
 * entry that is committed later gets a higher position, even if its `seq` is lower. Changes to the same row keep their
 * order.
 */
async function numberAll(db: Database): Promise<void> {
  const unnumbered = db.read.selectFrom('rowChanges').select('seq').where('position', 'is', null).limit(1)
  while ((await unnumbered.executeTakeFirst()) !== undefined) await db.write(number)
}

async function number(tx: Queryable): Promise<void> {
  // A separate statement takes the lock, so that the next one sees the positions that other processes have assigned.
  await sql`select last from change_positions for update`.execute(tx)
  const { rows } = await sql<{ count: number }>`
    with fresh as (
      select seq, row_number() over (order by seq) as place from row_changes where position is null
      order by seq limit ${sql.lit(maxNumbered)}
    ), numbered as (
      update row_changes set position = change_positions.last + fresh.place from fresh, change_positions
      where row_changes.seq = fresh.seq returning 1
    )
    select count(*) as count from numbered`.execute(tx)
  await sql`update change_positions set last = last + ${rows[0]?.count ?? 0}`.execute(tx)
}
