import { sql } from 'kysely'
import { isSubscribed } from '../queue/events.ts'
import type { Database } from '../storage/database.ts'
import { isWatched, watchCheck } from '../storage/row-changes/watched.ts'
import { type Changed, type Rows, rowsOf } from '../storage/rows/rows.ts'
import type { ColumnKind } from './column-types.ts'
import { isIntegral } from './conditions/fields.ts'
import type { Declaration } from './declaration.ts'
import { codecsOf } from './table.ts'

/**
 * Bit flags for the kinds of subscribers: webhooks and event streams. `Changed.subscribed` is the sum of the flags that
 * apply to a change.
 */
export const [webhookSubscribers, streamSubscribers] = [1, 2]

/**
 * Returns SQL, for the statement of each change, that computes the flags of its subscribers: webhooks, and event
 * streams if the database has no change numbers (see `withStreams`).
 */
function subscribersOf({ changes }: Database, { noun }: Pick<Declaration, 'noun'>) {
  const webhooks = (change: string) =>
    sql<number>`case when ${isSubscribed(`${noun}.${change}`)} then ${sql.lit(webhookSubscribers)} else 0 end`
  const watched = sql`case when ${isWatched(noun)} then ${sql.lit(streamSubscribers)} else 0 end`
  const of = (change: string) => (changes ? webhooks(change) : sql<number>`(${webhooks(change)} + ${watched})`)
  return { created: of('created'), updated: of('updated'), deleted: of('deleted') }
}

/** Adds event streams to the subscribers of each change while the resource's changes are logged. */
function withStreams(rows: Rows, isLogged: () => boolean): Rows {
  const add = (changed: Changed): Changed =>
    isLogged() ? { ...changed, subscribed: changed.subscribed + streamSubscribers } : changed
  return {
    ...rows,
    insert: async (...change) => add(await rows.insert(...change)),
    restore: async (...change) => add(await rows.restore(...change)),
    update: async (...change) => {
      const changed = await rows.update(...change)
      return changed && add(changed)
    },
    remove: async (...change) => {
      const deleted = await rows.remove(...change)
      return deleted && add(deleted)
    },
    updateAll: async (...change) => (await rows.updateAll(...change)).map(add),
    removeAll: async (...change) => (await rows.removeAll(...change)).map(add),
  }
}

/** Returns the `Rows` of a declared resource. */
export function resourceRows(db: Database, declaration: Declaration): Rows {
  const { table, ids, columns, kinds, folded, blank, sorts, references, access, computed, view, overlay } = declaration
  const fields = [...Object.keys(kinds), ...computed.totals.map(({ name }) => name)]
  // Links, computed conditions and derived fields may use any field, so lists must then read all of them.
  const isMade = [...Object.keys(computed.whens), ...Object.keys(computed.derived)].length > 0
  const isPartial = declaration.listed !== undefined && declaration.links === undefined && !isMade
  const read = ['id', 'revision', ...(declaration.listed ?? []), ...sorts, ...references.map(({ field }) => field)]
  const rows = rowsOf(db, {
    ...{ table, ids, columns, fields: [...fields, ...(access ? ['createdBy'] : [])], folded, blank },
    subscribed: subscribersOf(db, declaration),
    listed: isPartial ? [...new Set(read)] : undefined,
    codecs: codecsOf(declaration),
    narrow: overlay && Object.keys(kinds).filter((field) => isIntegral(kinds[field] as ColumnKind)),
    indexed: view?.collection.search.map(view.memberOf),
  })
  return db.changes ? withStreams(rows, watchCheck(db, db.changes, declaration.noun)) : rows
}
