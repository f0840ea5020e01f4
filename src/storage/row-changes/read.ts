import { sql } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import type { RowChangesTable } from '../tables/row-changes.ts'

/** A logged change. `at` is its position, which follows the order in which changes were committed. */
export interface LoggedChange {
  at: number
  tag: string
  noun: string
  change: RowChangesTable['change']
  rowId: string | null
  before: string | null
  after: string | null
}

/** A position in the log. It stands for all changes up to and including the change at this position. */
export interface LogPosition {
  at: number
  /** The tag of the change at this position; empty if the log contains no change. */
  tag: string
}

/** A reader of the log of changes. */
export interface ChangeLogReader {
  /** Returns the position of the last change. */
  head: () => Promise<LogPosition>
  /** Returns the position of a change and its `seq`; undefined if the log does not contain it. */
  find: (at: number, tag: string) => Promise<(LogPosition & { seq: number }) | undefined>
  /** Returns the next changes after a position, at most `maxRead`. */
  after: (at: number) => Promise<LoggedChange[]>
  /** Returns the number of the last transaction, for `hasMore`. */
  lastCommit: () => number
  /** Returns false if certainly no change has been logged since this transaction. */
  hasMore: (since: number) => boolean
}

/** The largest number of changes that one query reads. */
export const maxRead = 100
const maxNumbered = 1_000

/** Creates the reader of a database's log. */
export function changeLogReader(db: Database): ChangeLogReader {
  const { commitsInOrder } = db.engine
  const at = commitsInOrder ? sql.ref<number>('seq') : sql.ref<number>('position')
  const changes = db.read.selectFrom('rowChanges')
  const page = sql<LoggedChange>`
    select ${at} as at, tag, noun, change, row_id as "rowId", before, after from row_changes
    where ${at} > ${0} order by ${at} limit ${sql.lit(maxRead)}`
  const next = db.prepare<LoggedChange>({ compile: () => page.compile(db.read.withoutPlugins()) })
  const last = () =>
    changes
      .select([at.as('at'), 'tag'])
      .where(at, 'is not', null)
      .orderBy(at, 'desc')
      .limit(1)
      .executeTakeFirst()
  return {
    head: async () => {
      if (!commitsInOrder) await numberAll(db)
      return (await last()) ?? { at: 0, tag: '' }
    },
    find: (position, tag) =>
      changes
        .select([at.as('at'), 'tag', 'seq'])
        .where(at, '=', position)
        .where('tag', '=', tag)
        .executeTakeFirst(),
    after: async (position) => {
      if (!commitsInOrder) await numberAll(db)
      return next.all([position])
    },
    lastCommit: () => db.changes?.last() ?? 0,
    hasMore: (since) => db.changes === null || db.changes.lastOf('row_changes') > since,
  }
}

/**
 * Numbers the committed changes that have no position yet, if the engine does not commit in the order of `seq`. A change
 * that is committed later gets a higher position, even if its `seq` is lower. Changes to one row are numbered in the
 * order in which they were made.
 */
async function numberAll(db: Database): Promise<void> {
  const unnumbered = db.read.selectFrom('rowChanges').select('seq').where('position', 'is', null).limit(1)
  while ((await unnumbered.executeTakeFirst()) !== undefined) await db.write(number)
}

async function number(tx: Queryable): Promise<void> {
  // The lock is taken by a separate statement, so that the next statement sees what other processes have numbered.
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
