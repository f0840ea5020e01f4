import type { TObject, TSchema } from 'typebox'
import type { Cursor } from '../../http/pagination.ts'
import { malformedQuery } from '../../http/problems/problem.ts'
import { isCanonicalUuid } from '../../http/uuid.ts'
import { type IdType, maxId } from '../../storage/ids.ts'
import { type ColumnNames, columnOfField, keyColumnOfField } from '../../storage/rows/column-names.ts'
import { type RelatedTerm, type Sort, termMember } from '../../storage/rows/page-order.ts'
import { caseFold } from '../../storage/rows/page-query.ts'
import { passesNone } from '../../storage/rows/row-test.ts'
import type { Row } from '../../storage/rows/rows.ts'
import type { ColumnKind } from '../column-types.ts'
import { relationStep } from '../conditions/fields.ts'
import { isExactDecimal } from '../decimal-fields.ts'
import type { Declaration, Relation } from '../declaration.ts'
import { idTypes } from '../id-types.ts'
import type { Reached } from './related-filters.ts'

/** The parts of a declaration that determine how its lists can be sorted. */
export interface OrderRules {
  ids: IdType
  body: TObject
  kinds: Readonly<Record<string, ColumnKind>>
  folded: readonly string[]
  sorts: readonly string[]
  table: string
  columns?: ColumnNames | undefined
  relations?: readonly Relation[]
}

/** Returns the relations to one row; lists can be sorted by the sort fields of the related collection. */
const toOne = (relations: readonly Relation[] = []) => relations.filter(({ isMany }) => !isMany)

/** Returns the names that `sort` accepts: fields, and fields of related rows such as `customer.name`. */
export const sortNames = ({ sorts, relations }: Pick<OrderRules, 'sorts' | 'relations'>): string[] => [
  ...sorts,
  ...toOne(relations).flatMap(({ name, declaration }) => declaration.sorts.map((field) => `${name}.${field}`)),
]

const entriesOf = (sort: string) =>
  sort.split(',').map((text) => {
    const entry = text.trim()
    return { field: entry.replace(/^-/, ''), descending: entry.startsWith('-') }
  })

/** Returns the relations that a `sort` parameter follows; unknown names are ignored. */
export const sortedRelations = (sort: string, relations: readonly Relation[]): Relation[] => {
  const names = new Set(entriesOf(sort).flatMap(({ field }) => (field.includes('.') ? [field.split('.')[0]] : [])))
  return toOne(relations).filter(({ name }) => names.has(name))
}

/** Reads a `sort` parameter. Throws INVALID_INPUT for fields that are unknown or occur twice. */
export function readSort(sort: string | undefined, rules: OrderRules, reached: Reached): Sort[] {
  if (!sort) return []
  const entries = entriesOf(sort)
  const names = entries.map(({ field }) => field)
  const found = entries.map((entry) => termsOf(entry, rules, reached))
  const unknown = names.find((_, at) => found[at] === undefined)
  if (unknown !== undefined) {
    throw malformedQuery(
      'sort',
      `does not support '${unknown.slice(0, 40)}'; use one of ${sortNames(rules).join(', ')}`,
    )
  }
  if (new Set(names).size < names.length) throw malformedQuery('sort', 'must name each field at most once')
  const isFirst = new Set<string>()
  // A `missing` term separates the rows without a related row. Keep only the first one per relation.
  return found
    .flatMap((terms = []) => terms)
    .filter(({ field, along }) => along?.type !== 'missing' || (!isFirst.has(field) && isFirst.add(field)))
}

/** Returns the order terms for an entry in `sort`; undefined if the list cannot be sorted by it. */
function termsOf({ field, descending }: Sort, rules: OrderRules, reached: Reached): Sort[] | undefined {
  if (rules.sorts.includes(field)) return [{ field, descending }]
  const [name, ...rest] = field.split('.')
  const relation = toOne(rules.relations).find((one) => one.name === name)
  const other = rest.join('.')
  if (relation === undefined || !relation.declaration.sorts.includes(other)) return undefined
  const { declaration } = relation
  const step = relationStep({ ...rules, name: relation.name, field: relation.field, target: declaration })
  const rows = { step, read: reached.get(relation.name)?.read ?? passesNone }
  const type = typeOfSort(other, declaration.ids, declaration.shownKinds)
  return [
    { field: relation.name, descending: false, along: { ...rows, column: 'id', type: 'missing' } },
    { field, descending, along: { ...rows, column: sortColumn(other, declaration), type } },
  ]
}

const sortColumn = (field: string, { folded, columns }: Declaration) =>
  folded.includes(field) ? keyColumnOfField(field, columns) : columnOfField(field, columns)

/** Returns the names and directions of an order, to which cursors are bound. */
export const namesOfOrder = (order: readonly Sort[]) => order.map(({ field, descending }) => ({ field, descending }))

/** Returns a row's sort-key values, which form its cursor. */
export const cursorOf = (row: Row, order: readonly Sort[], { folded }: Pick<OrderRules, 'folded'>): Cursor['after'] =>
  order.map(({ field, along }, at) => {
    const value = row[along ? termMember(at) : field] as string | number
    return folded.includes(field) ? caseFold(String(value ?? '')) : value
  })

/** Removes the sort values of related rows. */
export function removeTerms(rows: readonly Row[], order: readonly Sort[]): void {
  for (const [at, { along }] of order.entries()) {
    if (along) for (const row of rows) delete row[termMember(at)]
  }
}

/** Returns true if a cursor's values have the types of their columns. Other types would cause a database error. */
export const isValidPosition = (
  after: Cursor['after'],
  order: readonly Sort[],
  { ids, kinds, body }: OrderRules,
): boolean =>
  order.every(({ field, along }, at) => {
    const value = after[at]
    const type = along?.type ?? typeOfSort(field, ids, kinds)
    if (type === 'decimal' && along === undefined) return isExactDecimal(value, body.properties[field] as TSchema)
    return isValue[type](value)
  })

const isValue: Record<RelatedTerm['type'], (value: unknown) => boolean> = {
  missing: (value) => value === 0 || value === 1,
  id: (value) => Number.isInteger(value) && Math.abs(Number(value)) <= maxId,
  uuid: isCanonicalUuid,
  integer: Number.isSafeInteger,
  number: (value) => typeof value === 'number',
  // A decimal is stored as an integer; here, it is that integer as text.
  decimal: (value) => /^-?\d{1,18}$/.test(String(value)),
  text: (value) => typeof value === 'string',
}

/** Returns the type of a field to sort by; `createdAt` and `updatedAt` are text. */
function typeOfSort(field: string, ids: IdType, kinds: OrderRules['kinds']): RelatedTerm['type'] {
  const kind = kinds[field]
  if (field === 'id') return idTypes[ids].sort
  if (kind === 'uuid' || kind === 'decimal' || kind === 'integer' || kind === 'number') return kind
  return kind === 'reference' ? 'integer' : 'text'
}
