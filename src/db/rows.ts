import { sql } from 'kysely'
import { type Lists, listsOf } from './list.ts'
import type { Database, Queryable } from './open.ts'
import { foldValue, snake } from './page.ts'

/** A row of a served resource: its own fields besides these. */
export interface Row {
  id: number
  revision: number
  createdAt: string
  updatedAt: string
  [field: string]: unknown
}

/** What a change demands of the row it meets; becomes part of the UPDATE or DELETE itself. */
export interface RowPrecondition {
  matches?: 'any' | readonly number[]
  differs?: 'any' | readonly number[]
  unchangedBefore?: string
}

export interface RowsOptions {
  table: 'users' | 'products' | 'books'
  /** Fields of the resource's body, in the order they are shown. */
  fields: readonly string[]
  /** Fields with a folded companion column `…Key`, for search, sort and uniqueness without regard to case. */
  folded: readonly string[]
  /** What a page of a list holds of each row; everything without it. */
  listed?: readonly string[] | undefined
}

/** One resource's table: what HTTP needs of it and nothing else. Every change bumps the row's revision. */
export interface Rows extends Lists<Row> {
  find: (id: number) => Row | undefined | Promise<Row | undefined>
  insert: (tx: Queryable, values: Record<string, unknown>, now: string) => Promise<Row>
  /** Undefined when there is no such row or it does not meet the demands. */
  update: (tx: Queryable, id: number, values: object, demands: RowPrecondition, now: string) => Promise<Row | undefined>
  remove: (tx: Queryable, id: number, demands: RowPrecondition) => Promise<boolean>
}

export function rowsOf(db: Database, { table, fields, folded, listed }: RowsOptions): Rows {
  // The generic parameter only names the columns every such table has; the rest is data.
  const name = table as 'products'
  const shown = ['id', ...fields, 'revision', 'createdAt', 'updatedAt']
  const columns = shown.map((field) => sql<never>`${sql.ref(snake(field))}`.as(field))
  const base = db.read.withoutPlugins().selectFrom(name).select(columns)
  const byId = db.prepare(base.where('id', '=', 0))
  const inserted = [...fields, ...folded.map((field) => `${field}Key`)]
  const blank = [...inserted, 'revision', 'createdAt', 'updatedAt'].map((field) => [snake(field), null])
  const add = db.read.withoutPlugins().insertInto(name).values(Object.fromEntries(blank))
  const addRow = db.prepare(add.returning('id'))
  const withKeys = (values: Record<string, unknown>) => {
    const keys = folded.filter((field) => field in values).map((field) => [`${field}Key`, foldValue(values[field])])
    return { ...values, ...Object.fromEntries(keys) }
  }
  return {
    find: (id) => {
      const rows = byId.all([id])
      return rows instanceof Promise ? rows.then(first) : first(rows)
    },
    ...listsOf<Row>(db, { table, folded }, listed ?? shown),
    insert: async (tx, values, now) => {
      const cells: unknown[] = fields.map((field) => values[field] ?? null)
      for (const field of folded) cells.push(foldValue(values[field]) ?? null)
      cells.push(1, now, now)
      const { rows } = await addRow.in(tx, cells)
      return { id: (rows[0] as { id: number }).id, ...values, revision: 1, createdAt: now, updatedAt: now }
    },
    update: async (tx, id, values, demands, now) => {
      const change = { ...withKeys(values as Record<string, unknown>), updatedAt: now }
      const query = tx.updateTable(name).set((row) => ({ ...change, revision: row('revision', '+', 1) }))
      const met = demand(query.where('id', '=', id), demands)
      return (await met.returning(shown as never).executeTakeFirst()) as Row | undefined
    },
    remove: async (tx, id, demands) => {
      const { numDeletedRows } = await demand(tx.deleteFrom(name).where('id', '=', id), demands).executeTakeFirst()
      return numDeletedRows === 1n
    },
  }
}

const first = (rows: unknown[]) => rows[0] as Row | undefined

interface Filterable {
  where: (column: string, op: string, value: unknown) => Filterable
}

/** The demands as conditions of the statement: the check cannot be separated from the change. */
function demand<Q>(query: Q, { matches, differs, unchangedBefore }: RowPrecondition): Q {
  let met = query as Filterable
  if (matches !== undefined && matches !== 'any') met = met.where('revision', 'in', matches.length > 0 ? matches : [-1])
  if (differs === 'any') met = met.where('revision', '<', 0)
  else if (differs !== undefined && differs.length > 0) met = met.where('revision', 'not in', differs)
  if (unchangedBefore !== undefined) met = met.where('updatedAt', '<', unchangedBefore)
  return met as Q
}
