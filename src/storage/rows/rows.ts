import { type RawBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import { type IdType, idOrNone, type RowId } from '../ids.ts'
import { type Changed, changer, type Row, type RowChanges } from './changer.ts'
import { type Codec, rowCodec } from './column-codec.ts'
import { type ColumnNames, columnOfField } from './column-names.ts'
import { inColumns, inserter } from './inserter.ts'
import { type RowJudge, rowJudge } from './judged-rows.ts'
import { type Lists, listsOf } from './list-query.ts'
import { foldValue, type PageSource, readColumn } from './page-query.ts'
import { type Columns, type Passing, readPassing, relatedReader } from './related-rows.ts'
import { type RowReads, rowReads } from './rows-in-transaction.ts'

export type { Changed, Deleted, Row } from './changer.ts'

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
  /** SQL that returns the subscribers to a change's event as a bit mask (`Changed.subscribed`); 0 by default. */
  subscribed?: Readonly<Record<'created' | 'updated' | 'deleted', RawBuilder<number>>>
}

/** Ids of one type. */
export interface SomeIds {
  ids: readonly RowId[]
  idType: IdType
}

/** The table of a resource, with the operations that HTTP needs. Every change increments the row's revision. */
export interface Rows extends Lists<Row>, RowJudge<Row>, RowChanges, RowReads<Row> {
  find: (id: RowId) => Row | undefined | Promise<Row | undefined>
  insert: (tx: Queryable, values: Record<string, unknown>, now: string) => Promise<Changed>
  /** Returns the stored form of values by column, including companion columns. */
  cellsOf: (values: Record<string, unknown>) => Record<string, unknown>
  /** Returns at most `limit` rows whose field contains one of these ids, unsorted, with the fields of a list page. */
  related: (field: string, ids: SomeIds, limit: number, passing?: Passing) => Row[] | Promise<Row[]>
}

const noSubscribers = { created: sql<number>`0`, updated: sql<number>`0`, deleted: sql<number>`0` }

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
    ...changer({ db, table, ids, returned, read, folded, columns, keyOf, encode, decode, subscribed }),
    ...rowJudge(table, base, decode),
    ...rowReads<Row>(db, { table, fields: readFields, wide, columns, decode }),
    cellsOf: (values) => inColumns(encode(values), values, { folded, columns, keyOf }),
    related: decodedReader(db, source, pageColumns, decode),
  }
}

type Decode = (row: Row) => Row | undefined

/** Creates the reader of related rows. For reads without a test, the statement for each field is compiled only once. */
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

const decodedPage = (rows: Row[] | Promise<Row[]>, decode: (row: Row) => Row | undefined) => {
  const each = (read: Row[]) => read.map((row) => decode(row) as Row)
  return rows instanceof Promise ? rows.then(each) : each(rows)
}

const firstRow = (rows: unknown[]) => rows[0] as Row | undefined
