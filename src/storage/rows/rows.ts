import { type RawBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import { type IdType, idOrNone, type RowId } from '../ids.ts'
import { type Codec, rowCodec } from './column-codec.ts'
import { type ColumnNames, columnOfField } from './column-names.ts'
import { type Encode, inColumns, inserter, type KeyOf } from './inserter.ts'
import { type RowJudge, rowJudge } from './judged-rows.ts'
import { type Lists, listsOf } from './list-query.ts'
import { foldValue, type PageSource, readColumn } from './page-query.ts'
import { hasId, type RowPrecondition, wherePrecondition } from './precondition.ts'
import { type Columns, isOneOf, type Passing, readPassing, relatedReader } from './related-rows.ts'
import { nextRevision } from './revision.ts'

/** A row of a served resource: these columns and the resource's own fields. */
export interface Row<Id extends RowId = RowId> {
  id: Id
  revision: number
  /** Absent in lists, because they have no Last-Modified date. */
  sharesSecond?: number
  createdAt: string
  updatedAt: string
  [field: string]: unknown
}

export interface RowsOptions {
  table: string
  /** The type of the ids; by default, integers. If they are UUIDs, `insert` expects the id among the values. */
  ids?: IdType | undefined
  /** Fields of the resource's body, in the order of the representation. */
  fields: readonly string[]
  /** Fields with a case-folded companion column `…Key`, for case-insensitive search, sort and uniqueness. */
  folded: readonly string[]
  /** Folded fields whose companion column is an empty string instead of null if the field is absent. */
  blank?: readonly string[]
  /** The fields of a row in list pages; all fields by default. */
  listed?: readonly string[] | undefined
  /** Codecs for fields with a stored form that differs from the form that clients see. */
  codecs?: Readonly<Record<string, Codec>>
  columns?: ColumnNames | undefined
  /** Integer fields whose columns may be narrower than the values in queries. */
  narrow?: readonly string[] | undefined
  /** The fields of the text index, if lists search only some of them. */
  indexed?: readonly string[] | undefined
  /** SQL that each change evaluates to find out whether its event has a subscriber; none by default. */
  subscribed?: Readonly<Record<'created' | 'updated' | 'deleted', RawBuilder<boolean>>>
  /** True if a deletion returns the whole row, not only its id. */
  returnsDeleted?: boolean
}

/** A row after a change, and whether the change's event has a subscriber. */
export interface Changed {
  row: Row
  subscribed: boolean
}

/** A deleted row; only its id unless `returnsDeleted`. */
export type Deleted = Omit<Changed, 'row'> & { row: Pick<Row, 'id'> }

/** Ids of one type. */
export interface SomeIds {
  ids: readonly RowId[]
  idType: IdType
}

/** The table of a resource, with the operations that HTTP needs. Every change increments the row's revision. */
export interface Rows extends Lists<Row>, RowJudge<Row> {
  find: (id: RowId) => Row | undefined | Promise<Row | undefined>
  insert: (tx: Queryable, values: Record<string, unknown>, now: string) => Promise<Changed>
  /** Returns undefined if the row does not exist or does not meet the precondition. */
  update: (
    tx: Queryable,
    id: RowId,
    values: object,
    precondition: RowPrecondition,
    now: string,
  ) => Promise<Changed | undefined>
  remove: (tx: Queryable, id: RowId, precondition: RowPrecondition) => Promise<Deleted | undefined>
  /** Returns at most `limit` rows with one of these ids in a field, with the fields of a list page, unsorted. */
  related: (field: string, ids: SomeIds, limit: number, passing?: Passing) => Row[] | Promise<Row[]>
  /** `updateAll` changes all rows with these ids, and `removeAll` deletes them. */
  updateAll: (tx: Queryable, ids: readonly RowId[], values: object, now: string) => Promise<Changed[]>
  removeAll: (tx: Queryable, ids: readonly RowId[]) => Promise<Deleted[]>
}

const noSubscribers = { created: sql<boolean>`0`, updated: sql<boolean>`0`, deleted: sql<boolean>`0` }

export function rowsOf(db: Database, options: RowsOptions): Rows {
  const { table, ids = 'integer', fields, folded, blank = [], listed, codecs = {}, columns, narrow, indexed } = options
  const { subscribed = noSubscribers } = options
  // Typed as `products`, because all resource tables have the same bookkeeping columns.
  const name = table as 'products'
  const listedByDefault = ['id', ...fields, 'revision', 'createdAt', 'updatedAt']
  const readFields = [...listedByDefault, 'sharesSecond']
  const wide = Object.keys(codecs).filter((field) => codecs[field]?.isWide)
  const source = { table, folded, wide, columns, narrow, indexed }
  const read = readFields.map((field) => sql<never>`${readColumn(field, source)}`.as(field))
  const isPlain = (field: string) => !wide.includes(field) && columns?.[field] === undefined
  const returned = readFields.map((field) => (isPlain(field) ? field : readColumn(field, source).as(field)))
  const base = db.read.withoutPlugins().selectFrom(name).select(read)
  const byId = db.prepare(base.where('id', '=', 0))
  const keyOf = (field: string, value: unknown) => foldValue(value ?? (blank.includes(field) ? '' : null))
  const { isCoded, encode, decode } = rowCodec(codecs)
  const lists = listsOf<Row>(db, source, listed ?? listedByDefault)
  const pageColumns = (listed ?? listedByDefault).map((field) => [field, readColumn(field, source)] as const)
  return {
    find: (id) => {
      const rows = byId.all([idOrNone(id)])
      return rows instanceof Promise ? rows.then((found) => decode(firstRow(found))) : decode(firstRow(rows))
    },
    ...(isCoded
      ? { ...lists, page: (query, requesterOf) => decodedPage(lists.page(query, requesterOf), decode) }
      : lists),
    insert: inserter(db, name, { ids, fields, folded, columns, keyOf, encode }, subscribed.created),
    ...changer({
      ...{ db, table, ids, returned, folded, columns, keyOf, encode, decode, subscribed },
      returnsDeleted: options.returnsDeleted,
    }),
    ...rowJudge(table, base, decode),
    related: decodedReader(db, source, pageColumns, decode),
  }
}

type Decode = (row: Row) => Row | undefined

interface ChangerOptions {
  db: Database
  table: string
  ids: IdType
  /** The fields that a change returns. */
  returned: readonly unknown[]
  folded: readonly string[]
  columns: ColumnNames | undefined
  keyOf: KeyOf
  encode: Encode
  decode: Decode
  subscribed: NonNullable<RowsOptions['subscribed']>
  returnsDeleted: boolean | undefined
}

/** Creates the methods that change or delete existing rows. */
function changer(options: ChangerOptions): Pick<Rows, 'update' | 'updateAll' | 'remove' | 'removeAll'> {
  const { db, table, ids: idType, returned, encode, decode, subscribed, returnsDeleted } = options
  const updateOf = (tx: Queryable, values: object, now: string) => {
    const change = inColumns(encode(values as Record<string, unknown>), values as Record<string, unknown>, options)
    return tx.updateTable(table as 'products').set({ ...change, ...nextRevision(table, now) })
  }
  const returning = (query: ReturnType<typeof updateOf>) =>
    query.returning(returned as never).returning(subscribed.updated.as('subscribed'))
  const changedRow = ({ subscribed: isSubscribed, ...row }: WithSubscribed): Changed => ({
    row: decode(row as Row) as Row,
    subscribed: Boolean(isSubscribed),
  })
  const first = async (query: { executeTakeFirst: () => Promise<unknown> }) => {
    const row = await query.executeTakeFirst()
    return row === undefined ? undefined : changedRow(row as WithSubscribed)
  }
  const every = async (query: { execute: () => Promise<unknown> }) =>
    ((await query.execute()) as WithSubscribed[]).map(changedRow)
  const shown = [...(returnsDeleted ? returned : ['id']), subscribed.deleted.as('subscribed')] as never
  const deleting = (tx: Queryable) => tx.deleteFrom(table as 'products').returning(shown)
  return {
    remove: (tx, id, precondition) => first(wherePrecondition(deleting(tx).where(hasId(id)), precondition)),
    removeAll: (tx, ids) => every(deleting(tx).where(isOneOf(db.engine, 'id', ids, idType))),
    update: async (tx, id, values, precondition, now) => {
      const matching = wherePrecondition(updateOf(tx, values, now).where(hasId(id)), precondition)
      return first(returning(matching))
    },
    updateAll: (tx, ids, values, now) =>
      every(returning(updateOf(tx, values, now).where(isOneOf(db.engine, 'id', ids, idType)))),
  }
}

/** Creates the reader of related rows; the statement for each field is compiled on first use. */
function decodedReader(
  db: Database,
  { table, columns: names }: PageSource,
  columns: Columns,
  decode: Decode,
): Rows['related'] {
  const readers = new Map<string, ReturnType<typeof relatedReader>>()
  return (field, { ids, idType }, limit, passing) => {
    const column = columnOfField(field, names)
    const rows = { table, columns, column, ids, idType, limit }
    if (passing) return decodedPage(readPassing(db, rows, passing) as never, decode)
    const read = readers.get(field) ?? relatedReader(db, rows)
    readers.set(field, read)
    return decodedPage(read(ids, limit) as Row[] | Promise<Row[]>, decode)
  }
}

type WithSubscribed = Row & { subscribed: boolean | number }
const decodedPage = (rows: Row[] | Promise<Row[]>, decode: (row: Row) => Row | undefined) => {
  const each = (read: Row[]) => read.map((row) => decode(row) as Row)
  return rows instanceof Promise ? rows.then(each) : each(rows)
}

const firstRow = (rows: unknown[]) => rows[0] as Row | undefined
