import { type RawBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import { idOrNone } from '../ids.ts'
import { type Codec, rowCodec } from './column-codec.ts'
import { type Lists, listsOf } from './list-query.ts'
import { foldValue, readColumn, snake } from './page-query.ts'
import { firstRevision, isUnmodifiedSince, nextRevision } from './revision.ts'

/** A row of a served resource: these columns and its own fields. */
export interface Row {
  id: number
  revision: number
  /** Absent in lists, which have no validator by date. */
  sharesSecond?: number
  createdAt: string
  updatedAt: string
  [field: string]: unknown
}

/** The precondition of a change; becomes part of the UPDATE or DELETE itself. */
export interface RowPrecondition {
  matches?: 'any' | readonly number[]
  differs?: 'any' | readonly number[]
  unmodifiedSince?: string
}

export interface RowsOptions {
  table: string
  /** Fields of the resource's body, in the order of the representation. */
  fields: readonly string[]
  /** Fields with a case-folded companion column `…Key`, for case-insensitive search, sort and uniqueness. */
  folded: readonly string[]
  /** Folded fields whose companion column is an empty string instead of null if the field is absent. */
  blank?: readonly string[]
  /** The fields of a row in list pages; all fields by default. */
  listed?: readonly string[] | undefined
  /** Codecs of fields that are stored in another form than clients see. */
  codecs?: Readonly<Record<string, Codec>>
  /** SQL that each change evaluates: whether its event has a subscriber; by default there is none. */
  subscribed?: Readonly<Record<'created' | 'updated' | 'deleted', RawBuilder<boolean>>>
}

/** A row after a change, and whether the event has a subscriber. */
export interface Changed {
  row: Row
  subscribed: boolean
}

/** The table of a resource, with the operations that HTTP needs. Every change increments the row's revision. */
export interface Rows extends Lists<Row> {
  find: (id: number) => Row | undefined | Promise<Row | undefined>
  insert: (tx: Queryable, values: Record<string, unknown>, now: string) => Promise<Changed>
  /** Returns undefined if there is no such row or it does not meet the precondition. */
  update: (
    tx: Queryable,
    id: number,
    values: object,
    precondition: RowPrecondition,
    now: string,
  ) => Promise<Changed | undefined>
  remove: (tx: Queryable, id: number, precondition: RowPrecondition) => Promise<{ subscribed: boolean } | undefined>
}

const noSubscribers = { created: sql<boolean>`0`, updated: sql<boolean>`0`, deleted: sql<boolean>`0` }

export function rowsOf(
  db: Database,
  { table, fields, folded, blank = [], listed, codecs = {}, subscribed = noSubscribers }: RowsOptions,
): Rows {
  // Typed as `products`, whose bookkeeping columns every resource table has.
  const name = table as 'products'
  const listedByDefault = ['id', ...fields, 'revision', 'createdAt', 'updatedAt']
  const readFields = [...listedByDefault, 'sharesSecond']
  const wide = Object.keys(codecs).filter((field) => codecs[field]?.isWide)
  const columns = readFields.map((field) => sql<never>`${readColumn(field, wide)}`.as(field))
  const returned = readFields.map((field) => (wide.includes(field) ? readColumn(field, wide).as(field) : field))
  const base = db.read.withoutPlugins().selectFrom(name).select(columns)
  const byId = db.prepare(base.where('id', '=', 0))
  const keyOf = (field: string, value: unknown) => foldValue(value ?? (blank.includes(field) ? '' : null))
  const { isCoded, encode, decode } = rowCodec(codecs)
  const lists = listsOf<Row>(db, { table, folded, wide }, listed ?? listedByDefault)
  return {
    find: (id) => {
      const rows = byId.all([idOrNone(id)])
      return rows instanceof Promise ? rows.then((found) => decode(firstRow(found))) : decode(firstRow(rows))
    },
    ...(isCoded
      ? { ...lists, page: (query, requesterOf) => decodedPage(lists.page(query, requesterOf), decode) }
      : lists),
    insert: inserter(db, name, { fields, folded, keyOf, encode }, subscribed.created),
    update: async (tx, id, values, precondition, now) => {
      const change = encode(withKeys(values as Record<string, unknown>, folded, keyOf))
      const query = tx.updateTable(name).set({ ...change, ...nextRevision(table, now) })
      const matching = wherePrecondition(query.where('id', '=', idOrNone(id)), precondition)
      const returning = matching.returning(returned as never).returning(subscribed.updated.as('subscribed'))
      const changed = (await returning.executeTakeFirst()) as (Row & { subscribed: boolean | number }) | undefined
      if (changed === undefined) return undefined
      const { subscribed: isSubscribed, ...row } = changed
      return { row: decode(row as Row) as Row, subscribed: Boolean(isSubscribed) }
    },
    remove: async (tx, id, precondition) => {
      const matching = wherePrecondition(tx.deleteFrom(name).where('id', '=', idOrNone(id)), precondition)
      const deleted = await matching.returning(subscribed.deleted.as('subscribed')).executeTakeFirst()
      return deleted && { subscribed: Boolean(deleted.subscribed) }
    },
  }
}

type Encode = (values: Record<string, unknown>) => Record<string, unknown>
/** The case-folded text of a field's value, as stored in its companion column. */
type KeyOf = (field: string, value: unknown) => unknown

/** Compiles the INSERT once, because inserts must be fast. */
function inserter(
  db: Database,
  table: 'products',
  { fields, folded, keyOf, encode }: Pick<RowsOptions, 'fields' | 'folded'> & { keyOf: KeyOf; encode: Encode },
  subscribed: RawBuilder<boolean>,
): Rows['insert'] {
  const inserted = [...fields, ...folded.map((field) => `${field}Key`)]
  const blank = [...inserted, 'revision', 'createdAt', 'updatedAt'].map((field) => [snake(field), null])
  const add = db.read.withoutPlugins().insertInto(table).values(Object.fromEntries(blank))
  const addRow = db.prepareInsert(add, subscribed)
  return async (tx, values, now) => {
    const stored = encode(values)
    const cells: unknown[] = fields.map((field) => stored[field] ?? null)
    for (const field of folded) cells.push(keyOf(field, values[field]))
    cells.push(1, now, now)
    const { id, result } = await addRow(tx, cells)
    return { row: { id, ...values, ...firstRevision(now) }, subscribed: result }
  }
}

function withKeys(values: Record<string, unknown>, folded: readonly string[], keyOf: KeyOf): Record<string, unknown> {
  const keys = folded.filter((field) => field in values).map((field) => [`${field}Key`, keyOf(field, values[field])])
  return { ...values, ...Object.fromEntries(keys) }
}

const decodedPage = (rows: Row[] | Promise<Row[]>, decode: (row: Row) => Row | undefined) => {
  const each = (read: Row[]) => read.map((row) => decode(row) as Row)
  return rows instanceof Promise ? rows.then(each) : each(rows)
}

const firstRow = (rows: unknown[]) => rows[0] as Row | undefined

interface Filterable {
  where: ((column: string, op: string, value: unknown) => Filterable) & ((is: RawBuilder<boolean>) => Filterable)
}

/** Adds the precondition to the WHERE clause, so that check and change are atomic. */
export function wherePrecondition<Q>(query: Q, { matches, differs, unmodifiedSince }: RowPrecondition): Q {
  let matching = query as Filterable
  if (matches !== undefined && matches !== 'any')
    matching = matching.where('revision', 'in', matches.length > 0 ? matches : [-1])
  if (differs === 'any') matching = matching.where('revision', '<', 0)
  else if (differs !== undefined && differs.length > 0) matching = matching.where('revision', 'not in', differs)
  if (unmodifiedSince !== undefined) matching = matching.where(isUnmodifiedSince(unmodifiedSince))
  return matching as Q
}
