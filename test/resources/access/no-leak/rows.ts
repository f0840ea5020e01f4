import { meets, type Row, type State } from './rules.ts'
import { childLink, linkFields, type Name, type Shape, type World } from './shapes.ts'

export type Members = Record<string, unknown>
export type Version = 'v1' | 'v2'

/** Returns the name of a field in a version; undefined if the version hides it. */
export function memberOf({ view }: Shape, version: Version, field: string): string | undefined {
  if (version === 'v2' || view === null) return field
  return view.hide.includes(field) ? undefined : (view.rename[field] ?? field)
}

/** Returns the value of a sum or a count over all rows that refer to the row. */
function totalOf({ world, rows }: State, name: Name, row: Row, field: string): unknown {
  const total = world.shapes[name].totals[field]
  if (total === undefined) return undefined
  const link = childLink(world, name, total.from)
  const children = [...rows[total.from].values()].filter((child) => child[`${link}Id`] === row.id)
  if (total.field === null) return children.length
  const sum = children.reduce((sum, child) => sum + Math.round(Number(child[total.field as string] ?? 0) * 100), 0)
  return total.field === 'price' ? (sum / 100).toFixed(2) : sum / 100
}

/** Returns the value of a field, stored or computed. */
export function fieldValue(state: State, name: Name, row: Row, field: string): unknown {
  const { whens, totals } = state.world.shapes[name]
  const when = whens[field]
  if (when) return meets(state, when, name, row)
  return field in totals ? totalOf(state, name, row, field) : row[field]
}

/** Returns all fields of a collection that responses may contain. */
export const shownFields = (shape: Shape) =>
  [
    ...Object.keys(shape.fields),
    ...linkFields(shape),
    ...Object.keys(shape.whens),
    ...Object.keys(shape.totals),
  ].filter((field) => !shape.writeOnly.includes(field))

/** Returns a row as a version shows it. Each link starts with `prefix`, which is empty in events. */
export function shown(state: State, name: Name, row: Row, version: Version, prefix: string): Members {
  const shape = state.world.shapes[name]
  const members: Members = { id: row.id }
  for (const field of shownFields(shape)) {
    const [member, value] = [memberOf(shape, version, field), fieldValue(state, name, row, field)]
    if (member !== undefined && value !== undefined) members[member] = value
  }
  const { createdAt, updatedAt, createdBy } = row
  Object.assign(members, { createdAt, updatedAt, ...(createdBy !== undefined && { createdBy }) })
  if (shape.hasLinks) members._links = { self: { href: `${prefix}/${name}/${row.id}` } }
  return members
}

/** A relation in a version: from a row to the row that it refers to or, if `isMany`, to the rows that refer to it. */
export interface Relation {
  name: string
  to: Name
  /** The collection's own name of the reference field: a field of the row or, if `isMany`, of the related rows. */
  field: string
  isMany: boolean
}

export function relationsOf(world: World, name: Name, version: Version): Relation[] {
  const shape = world.shapes[name]
  const toOne = Object.entries(shape.links).flatMap(([link, { to }]): Relation[] => {
    const member = memberOf(shape, version, `${link}Id`)
    return member === undefined ? [] : [{ name: member.slice(0, -2), to, field: `${link}Id`, isMany: false }]
  })
  const toMany = world.names.flatMap((child): Relation[] => {
    const link = childLink(world, name, child)
    const isShown = link !== undefined && memberOf(world.shapes[child], version, `${link}Id`) !== undefined
    return isShown ? [{ name: child, to: child, field: `${link}Id`, isMany: true }] : []
  })
  return [...toOne, ...toMany]
}

/** Returns the related rows, ordered by id. */
export const along = ({ rows }: State, { to, field, isMany }: Relation, row: Row): Row[] =>
  [...rows[to].values()]
    .filter((one) => (isMany ? one[field] === row.id : one.id === row[field]))
    .sort((a, b) => a.id - b.id)

/** Returns a copy of the state with one row added or replaced. */
export function withRow(state: State, name: Name, row: Row): State {
  return { ...state, rows: { ...state.rows, [name]: new Map(state.rows[name]).set(row.id, row) } }
}

/** Returns true if responses depend on the current day; their entity tags then contain the day. */
export const dependsOnDay = ({ whens }: Shape) => JSON.stringify(whens).includes('"today"')
export const hasLock = ({ world }: State, name: Name): boolean => {
  const { locked, access, links } = world.shapes[name]
  if (locked !== null) return true
  const to = access !== 'none' && 'of' in access ? links[access.of]?.to : undefined
  return to !== undefined && hasLock({ world } as State, to)
}
