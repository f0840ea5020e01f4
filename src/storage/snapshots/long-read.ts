import { type RawBuilder, sql } from 'kysely'
import type { Database } from '../database.ts'
import type { CellType } from '../engine.ts'

/** SQL text and its values; `{ key: n }` stands for the n-th key cell of the previous page's last row. */
export interface Statement {
  sql: string
  values: readonly unknown[]
}

/**
 * A query over any number of rows, as plain data that can be sent to a thread. It has two forms, a single statement and
 * keyset pages; each engine uses the faster form (see `openSnapshot`).
 */
export interface LongRead {
  whole: Statement
  /** Set if the rows are groups. Both engines then use the single statement. */
  isAggregated?: true
  firstPage: Statement
  nextPage: Statement
  count: Statement
  /** The single statement, with its cells prepared for CSV; present only for engines that have a CSV writer. */
  csv?: Statement
  /**
   * Statements that return a page as a single row: the number of rows, the last row's key, the CSV records, and the
   * text to check before the records can be used. Present only if this is faster than reading rows and there is only
   * one sort term.
   */
  csvPages?: { first: Statement; next: Statement }
  /** The type of each column; key cells that are not columns come after the columns in each row. */
  types: readonly CellType[]
  /** The positions of the key cells in a row. */
  keyAt: readonly number[]
  pageRows: number
}

/** A sort term: its SQL and direction. All terms together identify a row; no term is ever null. */
export interface OrderTerm {
  term: RawBuilder<unknown>
  descending: boolean
  /** The position of a cell that already contains the term's value, so that the value is not read twice. */
  cell?: number
  /** True for a 64-bit integer; its key is read as text to preserve every digit. */
  isWide?: boolean
}

export interface LongReadOptions {
  /** The cells of a row. */
  cells: readonly { term: RawBuilder<unknown>; type: CellType }[]
  /** The SQL that follows `from`: the table and its joins. */
  from: RawBuilder<unknown>
  where: readonly RawBuilder<unknown>[]
  order: readonly OrderTerm[]
}

const pageRows = 250

/** Compiles a long read for the database's engine. */
export function longRead({ read, engine }: Pick<Database, 'read' | 'engine'>, options: LongReadOptions): LongRead {
  const { cells, from, where, order } = options
  const plain = read.withoutPlugins()
  const columns = cells.map(({ term }) => term)
  const keys = order.filter(({ cell }) => cell === undefined)
  const selection = sql`select ${sql.join([...columns, ...keys.map(keyTerm)])} from ${from}`
  const sorted = sql`order by ${sql.join(order.map(({ term, descending }) => sql`${term} ${direction(descending)}`))}`
  const statement = (selected: RawBuilder<unknown>, conditions: readonly RawBuilder<unknown>[], rest = sql``) => {
    const whereClause = conditions.length > 0 ? sql`where ${sql.join(conditions, sql` and `)}` : sql``
    const { sql: text, parameters } = sql`${selected} ${whereClause} ${rest}`.compile(plain)
    return { sql: text, values: parameters }
  }
  // A literal, because a parameter here would affect the plan, and SQLite would prepare the statement again for each
  // page.
  const page = sql`${sorted} limit ${sql.raw(String(pageRows))}`
  const whole = sql`select ${sql.join(columns)} from ${from}`
  const record = order.length === 1 && engine.csvRecord(cells.map(({ term, type }) => ({ cell: term, type })))
  const csvPage = record && pageAsText(record, order[0] as OrderTerm, from)
  const names = cells.map((_, at) => sql.ref(`cell_${at + 1}`))
  const fields = engine.csvFields(cells.map(({ type }, at) => ({ cell: names[at] as RawBuilder<unknown>, type })))
  return {
    whole: statement(whole, where, sorted),
    // A subquery, because the CSV expression for a cell refers to the cell more than once.
    ...(fields && {
      csv: statement(
        sql`select ${sql.join(fields)} from (${whole}`,
        where,
        sql`${sorted}) as whole (${sql.join(names)})`,
      ),
    }),
    ...(csvPage && {
      csvPages: {
        first: statement(csvPage, where, sql`${page})`),
        next: statement(csvPage, [...where, afterKey(order)], sql`${page})`),
      },
    }),
    firstPage: statement(selection, where, page),
    nextPage: statement(selection, [...where, afterKey(order)], page),
    count: statement(sql`select count(*) from ${from}`, where),
    types: cells.map(({ type }) => type),
    keyAt: order.map((key) => key.cell ?? cells.length + keys.indexOf(key)),
    pageRows,
  }
}

/** Returns the start of a statement; the caller appends the rest of the inner select and a closing parenthesis. */
function pageAsText(
  { record, checked }: { record: RawBuilder<unknown>; checked: RawBuilder<unknown> },
  { term, descending }: OrderTerm,
  from: RawBuilder<unknown>,
) {
  // SQLite aggregates the rows of an ordered and limited subquery in that order.
  return sql`select count(*), ${descending ? sql`min` : sql`max`}(csv_key),
    group_concat(csv_record, char(13, 10)) || char(13, 10), group_concat(csv_checked, '')
    from (select ${term} as csv_key, ${record} as csv_record, ${checked} as csv_checked from ${from}`
}

const keyTerm = ({ term, isWide }: OrderTerm) => (isWide ? sql`cast(${term} as text)` : term)

const direction = (descending: boolean) => (descending ? sql`desc` : sql`asc`)

/**
 * Returns the condition for rows after the key. If all terms have the same direction, it is a row comparison, for which
 * both engines can use an index; otherwise, it compares term by term.
 */
function afterKey(order: readonly OrderTerm[]): RawBuilder<unknown> {
  const key = (at: number) => (order[at]?.isWide ? sql`cast(${{ key: at }} as bigint)` : sql`${{ key: at }}`)
  const compare = (descending: boolean) => (descending ? sql`<` : sql`>`)
  const [first] = order
  if (first && order.every(({ descending }) => descending === first.descending)) {
    const terms = sql.join(order.map(({ term }) => term))
    return sql`(${terms}) ${compare(first.descending)} (${sql.join(order.map((_, at) => key(at)))})`
  }
  const steps = order.map(({ term, descending }, at) => {
    const equal = order.slice(0, at).map((before, index) => sql`${before.term} = ${key(index)}`)
    return sql`(${sql.join([...equal, sql`${term} ${compare(descending)} ${key(at)}`], sql` and `)})`
  })
  return sql`(${sql.join(steps, sql` or `)})`
}
