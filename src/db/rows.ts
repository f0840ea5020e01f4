import { type RawBuilder, type ReferenceExpression, sql } from 'kysely'
import { fold } from './fold.ts'
import type { Database, Queryable } from './open.ts'
import type { Tables } from './tables.ts'

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

export interface Sort {
  field: string
  descending: boolean
}

export interface ListQuery {
  filters: { field: string; op: '=' | '>=' | '<=' | '>' | 'contains'; value: string | number }[]
  sort: Sort[]
  /** Values of the sort fields of the row to start behind. */
  after: readonly (string | number)[] | null
  /** Walk towards the start of the list instead. */
  backwards: boolean
  limit: number
}

export interface RowsOptions {
  table: 'users' | 'products' | 'books'
  /** Fields of the resource's body, in the order they are shown. */
  fields: readonly string[]
  /** Fields with a folded companion column `…Key`, for search, sort and uniqueness without regard to case. */
  folded: readonly string[]
}

/** One resource's table: what HTTP needs of it and nothing else. Every change bumps the row's revision. */
export interface Rows {
  find: (id: number) => Row | undefined | Promise<Row | undefined>
  list: (query: ListQuery) => Promise<Row[]>
  count: (filters: ListQuery['filters']) => Promise<number>
  insert: (tx: Queryable, values: Record<string, unknown>, now: string) => Promise<Row>
  /** Undefined when there is no such row or it does not meet the demands. */
  update: (tx: Queryable, id: number, values: object, demands: RowPrecondition, now: string) => Promise<Row | undefined>
  remove: (tx: Queryable, id: number, demands: RowPrecondition) => Promise<boolean>
}

export function rowsOf(db: Database, { table, fields, folded }: RowsOptions): Rows {
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
    list: (query) => list(db, name, shown, folded, query),
    count: async (filters) => {
      const query = db.read.selectFrom(name).select((row) => row.fn.countAll<number>().as('count'))
      return Number((await where(query, filters, folded).executeTakeFirstOrThrow()).count)
    },
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

const snake = (field: string) => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
const first = (rows: unknown[]) => rows[0] as Row | undefined
const foldValue = (value: unknown) => (typeof value === 'string' ? fold(value) : value)

interface Filterable {
  where: (condition: string | RawBuilder<unknown>, op?: string, value?: unknown) => Filterable
}

/** The demands as conditions of the statement: the check cannot be separated from the change. */
export function demand<Q>(query: Q, { matches, differs, unchangedBefore }: RowPrecondition): Q {
  let met = query as Filterable
  if (matches !== undefined && matches !== 'any') met = met.where('revision', 'in', matches.length > 0 ? matches : [-1])
  if (differs === 'any') met = met.where('revision', '<', 0)
  else if (differs !== undefined && differs.length > 0) met = met.where('revision', 'not in', differs)
  if (unchangedBefore !== undefined) met = met.where('updatedAt', '<', unchangedBefore)
  return met as Q
}

function where<Q>(query: Q, filters: ListQuery['filters'], folded: readonly string[]): Q {
  let met = query as Filterable
  for (const { field, op, value } of filters) {
    const isFolded = folded.includes(field)
    const column = isFolded ? `${field}Key` : field
    const wanted = isFolded ? foldValue(value) : value
    if (op === 'contains') met = met.where(sql`${sql.ref(column)} like ${likePattern(String(wanted))} escape '!'`)
    else met = met.where(column, op, wanted)
  }
  return met as Q
}

/** Any text around this one, its own wildcards made literal. */
const likePattern = (text: string) => `%${text.replace(/[!%_]/g, '!$&')}%`

type Column = ReferenceExpression<Tables, 'products'>

async function list(db: Database, table: 'products', shown: string[], folded: readonly string[], query: ListQuery) {
  const order = [...query.sort, { field: 'id', descending: false }].map(({ field, descending }) => ({
    column: (folded.includes(field) ? `${field}Key` : field) as Column,
    descending: descending !== query.backwards,
  }))
  let statement = db.read.selectFrom(table).select(shown as never)
  statement = where(statement, query.filters, folded)
  const { after } = query
  if (after) statement = statement.where((row) => behind(row as never, order, after) as never)
  for (const { column, descending } of order) statement = statement.orderBy(column, descending ? 'desc' : 'asc')
  const rows = (await statement.limit(query.limit).execute()) as Row[]
  return query.backwards ? rows.reverse() : rows
}

type Compare = ((column: Column, op: string, value: unknown) => unknown) & {
  or: (parts: unknown[]) => unknown
  and: (parts: unknown[]) => unknown
}

/** Keyset condition for mixed directions: behind in the first field, or equal there and behind in the next, … */
function behind(compare: Compare, order: { column: Column; descending: boolean }[], after: readonly unknown[]) {
  const steps = order.map(({ column, descending }, at) => {
    const equal = order.slice(0, at).map((before, index) => compare(before.column, '=', after[index]))
    return compare.and([...equal, compare(column, descending ? '<' : '>', after[at])])
  })
  return compare.or(steps)
}
