import { type RawBuilder, sql } from 'kysely'
import type { Database } from '../database.ts'
import type { LongRead, LongReadOptions } from './long-read.ts'

/** A term that rows are grouped by. Groups are sorted by all terms: text bytewise, and null last. */
export interface GroupTerm {
  term: RawBuilder<unknown>
  isText: boolean
}

/**
 * Selects groups of rows; without `groups`, all rows form one group. Each cell is a term of `groups` or an aggregate.
 */
export interface AggregateReadOptions extends Omit<LongReadOptions, 'order'> {
  groups: readonly GroupTerm[]
}

const pageRows = 250

/**
 * Compiles a read of groups. It is a single statement, because each keyset page would aggregate all rows again. Groups
 * that exceed the database's memory are sorted on its disk.
 */
export function aggregateRead(
  { read, engine }: Pick<Database, 'read' | 'engine'>,
  options: AggregateReadOptions,
): LongRead {
  const { cells, groups } = options
  const plain = read.withoutPlugins()
  const statement = (text: RawBuilder<unknown>) => {
    const { sql, parameters } = text.compile(plain)
    return { sql, values: parameters }
  }
  const order = groups.flatMap(({ term, isText }) => [sql`${term} is null`, isText ? engine.bytewise(term) : term])
  const sorted = order.length > 0 ? sql`order by ${sql.join(order)}` : sql``
  const selected = sql`select ${sql.join(cells.map(({ term }) => term))}`
  const whole = statement(sql`${selected} ${groupedRows(options)} ${sorted}`)
  return {
    whole,
    isAggregated: true,
    firstPage: whole,
    nextPage: whole,
    count: statement(groups.length > 0 ? countGroups(options) : sql`select 1`),
    types: cells.map(({ type }) => type),
    keyAt: [],
    pageRows,
  }
}

/** Returns a query that counts the groups, up to `max` if given. */
export const countGroups = (
  options: Pick<AggregateReadOptions, 'from' | 'where' | 'groups'>,
  max?: number,
): RawBuilder<{ rows: number }> =>
  sql`select count(*) as rows from (select 1 ${groupedRows(options)} ${max === undefined ? sql`` : sql`limit ${max}`}) as found`

/** Returns the `from`, `where` and `group by` clauses of a statement. */
function groupedRows({ from, where, groups }: Pick<AggregateReadOptions, 'from' | 'where' | 'groups'>) {
  const condition = where.length > 0 ? sql` where ${sql.join(where, sql` and `)}` : sql``
  const grouping = groups.length > 0 ? sql` group by ${sql.join(groups.map(({ term }) => term))}` : sql``
  return sql`from ${from}${condition}${grouping}`
}
