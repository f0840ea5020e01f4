import { along, fieldValue, type Members, memberOf, type Relation, relationsOf, shown, type Version } from './rows.ts'
import { type Asker, canRead, inRange, type Row, type State } from './rules.ts'
import { kindOf, type Name } from './shapes.ts'
import { fold } from './writes.ts'

/** A comparison in a query, with the collection's own field names. */
export interface Filter {
  field: string
  operator: string
  value: unknown
  /** The relation to the row that is compared; undefined if the listed row itself is compared. */
  relation?: Relation
}

export interface Sort {
  field: string
  isDown: boolean
  relation?: Relation
}

export interface Query {
  filters: Filter[]
  /** Alternatives: if there are any, a row must meet at least one. */
  or: Filter[]
  q: string | null
  sort: Sort[]
  /** Restricts the list to the rows that refer to one row. */
  under: { field: string; id: number } | null
}

/** Returns whether a row passes a filter of a query, which ignores the case of text. */
function passes(state: State, name: Name, row: Row, { field, operator, value: wanted }: Filter): boolean {
  const kind = kindOf(state.world.shapes[name], field)
  const value = fieldValue(state, name, row, field)
  const comparable = (one: unknown) => {
    if (kind === 'text') return fold(String(one))
    return kind === 'decimal' || kind === 'integer' || kind === 'reference' ? Number(one) : String(one)
  }
  if (operator === 'null') return (value === undefined) === wanted
  if (operator === 'not') return value === undefined || comparable(value) !== comparable(wanted)
  if (value === undefined) return false
  if (operator === '=') return comparable(value) === comparable(wanted)
  if (operator === 'in') return (wanted as unknown[]).some((one) => comparable(value) === comparable(one))
  if (operator === 'prefix') return String(comparable(value)).startsWith(fold(String(wanted)))
  return inRange(operator, value, wanted)
}

/** Returns the row to compare: the row itself or, with a relation, the related row if the caller can read it. */
function comparedRow(state: State, name: Name, row: Row, asker: Asker, relation?: Relation): [Name, Row] | undefined {
  if (relation === undefined) return [name, row]
  const [other] = along(state, relation, row)
  return other !== undefined && canRead(state, relation.to, other, asker) ? [relation.to, other] : undefined
}

/** Returns the rows that a caller sees in a list, in order. */
export function listed(state: State, name: Name, query: Query, asker: Asker, searched: readonly string[]): Row[] {
  const { filters, or, q, under } = query
  const meetsFilter = (row: Row, filter: Filter) => {
    const compared = comparedRow(state, name, row, asker, filter.relation)
    return compared !== undefined && passes(state, ...compared, filter)
  }
  const found = [...state.rows[name].values()].filter((row) => {
    if (!canRead(state, name, row, asker)) return false
    if (under && row[under.field] !== under.id) return false
    if (q !== null && !searched.some((field) => fold(String(row[field] ?? '')).includes(fold(q)))) return false
    if (or.length > 0 && !or.some((filter) => meetsFilter(row, filter))) return false
    return filters.every((filter) => meetsFilter(row, filter))
  })
  const order: Sort[] = [...query.sort, { field: 'id', isDown: query.sort.at(-1)?.isDown ?? false }]
  return found.sort((one, other) => {
    for (const sort of order) {
      const [left, right] = [one, other].map((row) => comparedRow(state, name, row, asker, sort.relation))
      // Rows without a readable related row come last in both directions.
      if (!left || !right) {
        if (left || right) return left ? -1 : 1
        continue
      }
      const difference = compare(sortKey(state, ...left, sort), sortKey(state, ...right, sort))
      if (difference !== 0) return sort.isDown ? -difference : difference
    }
    return 0
  })
}

function sortKey(state: State, name: Name, row: Row, { field }: Sort): string | number {
  const kind = kindOf(state.world.shapes[name], field)
  const value = fieldValue(state, name, row, field)
  if (field === 'id' || ['integer', 'decimal', 'reference'].includes(kind)) return Number(value)
  return kind === 'text' && field in state.world.shapes[name].fields ? fold(String(value ?? '')) : String(value)
}

export const compare = (one: string | number, other: string | number): number =>
  typeof one === 'number' ? one - Number(other) : Buffer.compare(Buffer.from(one), Buffer.from(String(other)))

/** Returns the members that `expand` adds to a row. `paths` contains only relation names that the version has. */
export function expanded(
  { state, version, prefix, asker }: { state: State; version: Version; prefix: string; asker: Asker },
  name: Name,
  row: Row,
  paths: readonly string[][],
): Members {
  const members: Members = {}
  for (const [first, below] of Map.groupBy(paths, ([step]) => step as string)) {
    const relation = relationsOf(state.world, name, version).find((one) => one.name === first)
    if (relation === undefined) continue
    const { to } = relation
    const further = below.map(([, ...rest]) => rest).filter((rest) => rest.length > 0)
    const found = along(state, relation, row)
      .filter((other) => canRead(state, to, other, asker))
      .map((other) => ({
        ...shown(state, to, other, version, prefix),
        ...expanded({ state, version, prefix, asker }, to, other, further),
      }))
    members[first] = relation.isMany ? found : (found[0] ?? null)
  }
  return members
}

/** Returns the parts of a value that `fields` selects; undefined if it contains none of them. */
function picked(value: unknown, paths: readonly string[][]): unknown {
  if (paths.some((path) => path.length === 0)) return value
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value)) {
    const parts = value.map((item) => picked(item, paths))
    return parts.some((part) => part !== undefined) ? parts.map((part) => part ?? {}) : undefined
  }
  const entries = [...Map.groupBy(paths, ([first]) => first as string)].flatMap(([first, some]) => {
    if (!Object.hasOwn(value, first)) return []
    const part = picked(
      (value as Members)[first],
      some.map(([, ...rest]) => rest),
    )
    return part === undefined ? [] : [[first, part]]
  })
  return entries.length > 0 ? Object.fromEntries(entries) : undefined
}

/** Returns the members of a row that a response contains: those selected by `fields`, or all without `fields`. */
export const selected = (row: Members, fields: readonly string[]): unknown =>
  fields.length === 0
    ? row
    : (picked(
        row,
        fields.map((field) => field.split('.')),
      ) ?? {})

/** Returns the fields that can filter a list in a version. A field that is only in `ranges` needs an operator. */
export function filterable(state: State, name: Name, version: Version): { field: string; isRangeOnly: boolean }[] {
  const shape = state.world.shapes[name]
  const all = [...new Set([...shape.filters, ...shape.ranges])]
  return all
    .filter((field) => memberOf(shape, version, field) !== undefined)
    .map((field) => ({ field, isRangeOnly: !shape.filters.includes(field) }))
}

/** Returns the fields by which a list can be sorted in a version. */
export function sortable(state: State, name: Name, version: Version): string[] {
  const shape = state.world.shapes[name]
  const required = shape.filters.filter((field) => {
    const isRequired = shape.fields[field]?.isRequired ?? shape.links[field.replace(/Id$/, '')]?.isRequired
    return isRequired && kindOf(shape, field) !== 'boolean'
  })
  const named = [...new Set([...shape.sorts, ...required])].filter((f) => memberOf(shape, version, f) !== undefined)
  return ['id', 'createdAt', 'updatedAt', ...named]
}
