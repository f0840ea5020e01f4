import { type RawBuilder, sql } from 'kysely'
import { idBeforeAll, type RowId } from '../ids.ts'
import { wideInteger } from './column-codec.ts'
import { passesAll, type RelationStep, type RowTest, type StoredValue, testSql } from './row-test.ts'

/** A sort term whose value comes from a related row. */
export interface RelatedTerm {
  step: RelationStep
  /** The SQL name of the column. */
  column: string
  /**
   * The type of the term. `missing` is 1 for rows without a related row and 0 for all others; `decimal` is a 64-bit
   * integer (`Codec.isWide`).
   */
  type: 'missing' | 'id' | 'uuid' | 'integer' | 'number' | 'decimal' | 'text'
  /** The related rows that the caller may see; all others are treated as missing. */
  read: RowTest
}

export interface Sort {
  field: string
  descending: boolean
  /** If present, sorts by a value of the related row; no index supports such an order. */
  along?: RelatedTerm
}

/**
 * Makes an order total by ending it with the id. If the order does not contain the id, the id gets the direction of the
 * last field.
 */
export function totalOrder(sort: readonly Sort[]): Sort[] {
  const id = sort.findIndex(({ field }) => field === 'id')
  if (id >= 0) return sort.slice(0, id + 1)
  return [...sort, { field: 'id', descending: sort.at(-1)?.descending ?? false }]
}

/**
 * Returns the name of the row member that contains the value of the term at index `at`. No field can have this name.
 */
export const termMember = (at: number): string => `sort ${at}`

/** Converts a value from a cursor to the form that is compared with its column. */
export const termValue = ({ type }: RelatedTerm, value: string | number): unknown =>
  type === 'decimal' ? wideInteger(String(value)) : value

/** The values of terms in rows without a related row; 0 for all other types. */
const absent: Readonly<Partial<Record<RelatedTerm['type'], RowId>>> = { text: '', uuid: idBeforeAll.uuid }

// Column names contain no space, so this alias and `termMember` never conflict with one. The other columns therefore
// need no table name.
const relatedId = 'related id'
const aliasOf = (order: readonly Sort[], { step }: RelatedTerm) =>
  `sorted_${order.findIndex(({ along }) => along?.step.name === step.name)}`

/**
 * Returns the expression of a related term, which is never null. Without a related row, `missing` is 1; any other term
 * is an empty text, zero or the nil UUID.
 */
export function relatedTerm(order: readonly Sort[], at: number, along: RelatedTerm): RawBuilder<unknown> {
  const alias = aliasOf(order, along)
  if (along.type === 'missing') return sql`case when ${sql.id(alias, relatedId)} is null then 1 else 0 end`
  return sql`coalesce(${sql.id(alias, termMember(at))}, ${sql.lit(absent[along.type] ?? 0)})`
}

/** Returns expressions that select the related terms as the members named by `termMember`. */
export const relatedSelections = (order: readonly Sort[]): RawBuilder<unknown>[] =>
  order.flatMap(({ along }, at) => {
    if (along === undefined) return []
    const term = relatedTerm(order, at, along)
    return [sql`${along.type === 'decimal' ? sql`cast(${term} as text)` : term} as ${sql.id(termMember(at))}`]
  })

/** Returns the joins with the related rows that an order uses; `bind` returns the parameter for a value. */
export function relatedJoins(order: readonly Sort[], bind: (value: StoredValue | bigint) => unknown) {
  const terms = order.flatMap(({ along }, at) => (along ? [{ along, at }] : []))
  const joins = [...Map.groupBy(terms, ({ along }) => along.step.name).values()].map((all) => {
    const [{ along }] = all as [(typeof all)[number]]
    const { step, read } = along
    const columns = all
      .filter(({ along }) => along.type !== 'missing')
      .map(({ along, at }) => sql`${sql.id(along.column)} as ${sql.id(termMember(at))}`)
    const passing = read === passesAll ? sql`` : sql`where ${testSql(read, { bind, table: 'related_0', steps: 1 })}`
    const alias = aliasOf(order, along)
    return sql`left join (
      select ${sql.join([sql`id as ${sql.id(relatedId)}`, ...columns])} from ${sql.id(step.target)} as related_0 ${passing}
    ) as ${sql.id(alias)} on ${sql.id(alias, relatedId)} = ${sql.id(step.table, step.on.column)}`
  })
  return sql.join(joins, sql` `)
}

/**
 * Returns the condition for the rows after a given row or, if `backwards`, before it. If all directions are the same,
 * it is a single row comparison, for which both engines use an index. Otherwise, the first field bounds the search, and
 * the other fields break ties. `valueAt` returns the expression for the given row's value of a term.
 */
export function afterRow(
  order: readonly Sort[],
  backwards: boolean,
  terms: readonly RawBuilder<unknown>[],
  valueAt: (at: number) => RawBuilder<unknown>,
): RawBuilder<unknown> {
  const down = order.map(({ descending }) => descending !== backwards)
  const beyond = (at: number, orEqual = '') => sql.raw((down[at] ? '<' : '>') + orEqual)
  if (terms.length === 1) return sql`${terms[0]} ${beyond(0)} ${valueAt(0)}`
  if (new Set(down).size === 1) {
    return sql`(${sql.join(terms)}) ${beyond(0)} (${sql.join(terms.map((_, at) => valueAt(at)))})`
  }
  const step = (at: number): RawBuilder<unknown> => {
    const value = valueAt(at)
    const beyondValue = sql`${terms[at]} ${beyond(at)} ${value}`
    if (at === order.length - 1) return beyondValue
    return sql`(${terms[at]} ${beyond(at, '=')} ${value} and (${beyondValue} or ${step(at + 1)}))`
  }
  return step(0)
}
