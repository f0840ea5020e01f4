import { type RawBuilder, sql } from 'kysely'
import type { Database, PreparedStatement, Queryable } from '../database.ts'
import { type IdType, idOrNone, type RowId } from '../ids.ts'
import type { ColumnNames } from './column-names.ts'
import { type Encode, inColumns, type KeyOf } from './inserter.ts'
import { hasId, type RowPrecondition, wherePrecondition } from './precondition.ts'
import { isOneOf } from './related-rows.ts'
import { nextRevision } from './revision.ts'
import { type Returned, updater } from './updater.ts'

/** A row of a served resource: these columns and the resource's own fields. */
export interface Row<Id extends RowId = RowId> {
  id: Id
  revision: number
  /** Absent from rows in lists, because lists have no Last-Modified header. */
  sharesSecond?: number
  createdAt: string
  updatedAt: string
  [field: string]: unknown
}

/** A row after a change. `subscribed` is a bit mask of the kinds of subscribers to the change; 0 if there are none. */
export interface Changed {
  row: Row
  subscribed: number
}

/** A deleted row, as it was before the deletion. */
export type Deleted = Changed

/** Methods that change rows. Restoring or updating a row increments its revision. */
export interface RowChanges {
  /**
   * Inserts a deleted row again, with the same id and `createdAt` and the next revision. The table must not contain a
   * row with this id.
   */
  restore: (tx: Queryable, row: Row, now: string) => Promise<Changed>
  /** `update` and `remove` return undefined if the row does not exist or the precondition fails. */
  update: (
    tx: Queryable,
    id: RowId,
    values: object,
    precondition: RowPrecondition,
    now: string,
  ) => Promise<Changed | undefined>
  remove: (tx: Queryable, id: RowId, precondition: RowPrecondition) => Promise<Deleted | undefined>
  /** `updateAll` changes all rows with these ids, and `removeAll` deletes them. */
  updateAll: (tx: Queryable, ids: readonly RowId[], values: object, now: string) => Promise<Changed[]>
  removeAll: (tx: Queryable, ids: readonly RowId[]) => Promise<Deleted[]>
}

type WithSubscribed = Row & { subscribed: number }

interface ChangerOptions {
  db: Database
  table: string
  ids: IdType
  /** The fields that a change returns, and the same fields for a query without plugins. */
  returned: readonly unknown[]
  read: Returned['columns']
  folded: readonly string[]
  columns: ColumnNames | undefined
  keyOf: KeyOf
  encode: Encode
  decode: (row: Row) => Row | undefined
  subscribed: Readonly<Record<'created' | 'updated' | 'deleted', RawBuilder<number>>>
}

/** Creates the methods that change, delete or restore rows. */
export function changer(options: ChangerOptions): RowChanges {
  const { db, table, ids: idType, returned, encode, decode, subscribed } = options
  const cellsOf = (values: object) =>
    inColumns(encode(values as Record<string, unknown>), values as Record<string, unknown>, options)
  const updateOf = (tx: Queryable, values: object, now: string) =>
    tx.updateTable(table as 'products').set({ ...cellsOf(values), ...nextRevision(table, now) })
  const returning = (query: ReturnType<typeof updateOf>, change: 'created' | 'updated' = 'updated') =>
    query.returning(returned as never).returning(subscribed[change].as('subscribed'))
  const changedRow = ({ subscribed: subscribers, ...row }: WithSubscribed): Changed => ({
    row: decode(row as Row) as Row,
    subscribed: subscribers,
  })
  const first = async (query: { executeTakeFirst: () => Promise<unknown> }) => {
    const row = await query.executeTakeFirst()
    return row === undefined ? undefined : changedRow(row as WithSubscribed)
  }
  const every = async (query: { execute: () => Promise<unknown> }) =>
    ((await query.execute()) as WithSubscribed[]).map(changedRow)
  const shown = [...returned, subscribed.deleted.as('subscribed')] as never
  const deleting = (tx: Queryable) => tx.deleteFrom(table as 'products').returning(shown)
  const removeOne = deleter(options)
  const add = inserted(options)
  const updateOne = updater(db, { table, columns: options.read, subscribed: subscribed.updated })
  return {
    // Updates the inserted row, which increments its revision and marks it as changed for the text index.
    restore: async (tx, row, now) => {
      await add(tx, row)
      return (await first(returning(updateOf(tx, {}, now).where(hasId(row.id)), 'created'))) as Changed
    },
    remove: async (tx, id, precondition) => {
      const row = await removeOne(tx, id, precondition)
      return row && changedRow(row)
    },
    removeAll: (tx, ids) => every(deleting(tx).where(isOneOf(db.engine, 'id', ids, idType))),
    update: async (tx, id, values, precondition, now) => {
      const row = await updateOne(tx, { id, cells: cellsOf(values), precondition, now })
      return row && changedRow(row as WithSubscribed)
    },
    updateAll: (tx, ids, values, now) =>
      every(returning(updateOf(tx, values, now).where(isOneOf(db.engine, 'id', ids, idType)))),
  }
}

/**
 * Returns the function that deletes one row. The statements without a precondition and with one revision are compiled
 * once, because compiling a DELETE takes longer than running it.
 */
function deleter({ db, table, read, subscribed }: ChangerOptions) {
  const deleteOf = (of: Queryable, id: RowId, precondition: RowPrecondition) =>
    wherePrecondition(
      of
        .withoutPlugins()
        .deleteFrom(table as 'products')
        .where(hasId(id)),
      precondition,
    ).returning([...read, subscribed.deleted.as('subscribed')] as never)
  const prepare = (precondition: RowPrecondition) =>
    db.prepare<WithSubscribed>(deleteOf(db.read, 0, precondition) as never)
  let byId: PreparedStatement<WithSubscribed> | undefined
  let byRevision: PreparedStatement<WithSubscribed> | undefined
  return async (tx: Queryable, id: RowId, precondition: RowPrecondition): Promise<WithSubscribed | undefined> => {
    const { matches = 'any', differs, unmodifiedSince, passes } = precondition
    const isUsual = differs === undefined && unmodifiedSince === undefined && passes === undefined
    if (isUsual && matches === 'any') {
      byId ??= prepare({})
      return (await byId.in(tx, [idOrNone(id)])).rows[0]
    }
    if (isUsual && matches.length === 1) {
      byRevision ??= prepare({ matches: [0] })
      return (await byRevision.in(tx, [idOrNone(id), matches[0]])).rows[0]
    }
    return (await deleteOf(tx, id, precondition).executeTakeFirst()) as WithSubscribed | undefined
  }
}

/** Returns the function that inserts a deleted row unchanged. */
function inserted({ db, table, encode, ...names }: ChangerOptions) {
  return async (tx: Queryable, { id, revision, sharesSecond = 0, createdAt, updatedAt, ...values }: Row) => {
    const cells = {
      ...inColumns(encode(values), values, names),
      ...{ id, revision, shares_second: sharesSecond, created_at: createdAt, updated_at: updatedAt },
    }
    const columns = sql.join(Object.keys(cells).map((name) => sql.ref(name)))
    await sql`
      insert into ${sql.ref(table)} (${columns}) ${db.engine.overridingIdentity}
      values (${sql.join(Object.values(cells))})`.execute(tx)
  }
}
