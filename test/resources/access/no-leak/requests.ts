import type { Dice } from './dice.ts'
import { type Filter, filterable, type Query, sortable } from './lists.ts'
import type { Person } from './people.ts'
import { type Members, memberOf, type Relation, relationsOf, shownFields, type Version } from './rows.ts'
import type { State } from './rules.ts'
import { kindOf, type Name, operatorsOf, pools } from './shapes.ts'
import { storedFields } from './writes.ts'

/** A random read request: its query parameters, and their meaning for the model. */
export interface DrawnRead {
  parameters: [string, string][]
  query: Query
  fields: string[]
  expand: string[][]
  /** The collections that the parameters refer to; the token needs the read scope of each. */
  reached: Set<Name>
  /** True if a parameter contains a name that the version does not have. */
  isUnknown: boolean
}

/** The id of a missing row. */
export const missingId = 99_999_999

/** Picks a random value of a field for a query or a body. */
export function drawValue(dice: Dice, state: State, name: Name, field: string): unknown {
  const shape = state.world.shapes[name]
  const kind = kindOf(shape, field)
  if (field in shape.totals) return kind === 'decimal' ? dice.one(pools.price ?? []) : dice.int(4)
  if (kind === 'boolean') return dice.chance(0.5)
  if (kind !== 'reference') return dice.one(pools[field] ?? [])
  const to = shape.links[field.slice(0, -2)]?.to as Name
  const ids = [...state.rows[to].keys()]
  return ids.length === 0 || dice.chance(0.04) ? missingId : dice.one(ids)
}

function drawFilter(dice: Dice, state: State, name: Name, version: Version, hasRanges: boolean): Filter | undefined {
  const fields = filterable(state, name, version).filter(({ isRangeOnly }) => hasRanges || !isRangeOnly)
  if (fields.length === 0) return undefined
  const { field, isRangeOnly } = dice.one(fields)
  const shape = state.world.shapes[name]
  const known = shape.fields[field] ?? shape.links[field.replace(/Id$/, '')]
  const operators = operatorsOf(kindOf(shape, field)).filter((one) => one !== 'null' || (known && !known.isRequired))
  const operator = !isRangeOnly && dice.chance(0.4) ? '=' : dice.one(operators)
  const draw = () => drawValue(dice, state, name, field)
  if (operator === 'null') return { field, operator, value: dice.chance(0.5) }
  if (operator === 'in') return { field, operator, value: [draw(), draw()].slice(dice.int(2)) }
  const value = draw()
  return { field, operator, value: operator === 'prefix' ? String(value).slice(0, 1 + dice.int(2)) : value }
}

const quoted = (value: unknown) =>
  /[,"]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value)
const nameWith = (member: string, operator: string) => (operator === '=' ? member : `${member}[${operator}]`)
const textOf = ({ value }: Filter) => (Array.isArray(value) ? value.map(quoted).join() : String(value))

/** Generates the query parameters of a list request. */
export function drawList(dice: Dice, state: State, name: Name, version: Version): DrawnRead {
  const drawn = drawRead(dice, state, name, version)
  const { parameters, query } = drawn
  const shape = state.world.shapes[name]
  const add = (key: string, value: string) => {
    if (parameters.some(([known]) => known === key)) return false
    parameters.push([key, value])
    return true
  }
  const toOne = relationsOf(state.world, name, version).filter(({ isMany }) => !isMany)
  /** Generates a filter on a field of the row or, less often, of a related row; also returns its parameter's name. */
  const filter = (): { drawn: Filter; text: string } | undefined => {
    const relation = toOne.length > 0 && dice.chance(0.35) ? dice.one(toOne) : undefined
    const one = drawFilter(dice, state, relation?.to ?? name, version, relation === undefined)
    if (one === undefined) return undefined
    const text = nameWith(
      memberOf(state.world.shapes[relation?.to ?? name], version, one.field) as string,
      one.operator,
    )
    return relation ? { drawn: { ...one, relation }, text: `${relation.name}.${text}` } : { drawn: one, text }
  }
  const reach = ({ relation }: { relation?: Relation }) => relation && drawn.reached.add(relation.to)
  for (let left = dice.one([0, 0, 1, 1, 2]); left > 0; left--) {
    const one = filter()
    if (one === undefined || !add(one.text, textOf(one.drawn))) continue
    query.filters.push(one.drawn)
    reach(one.drawn)
  }
  if (dice.chance(0.2) && filterable(state, name, version).length > 0) {
    const any = [1, 2, 3].slice(dice.int(3)).flatMap(() => filter() ?? [])
    const some = any.filter((one) => one.drawn.operator !== 'in')
    const text = some.map((one) => `${one.text}:${quoted(one.drawn.value)}`).join()
    if (some.length > 0 && add('or', text)) {
      query.or.push(...some.map((one) => one.drawn))
      some.map((one) => reach(one.drawn))
    }
  }
  if (searched(state, name, version).length > 0 && dice.chance(0.15)) {
    query.q = dice.one(['a', 'B', 'é', '%', 'orth', ' '])
    add('q', query.q)
  }
  if (dice.chance(0.45)) {
    const sorts = [1, 2].slice(dice.int(2)).map(() => {
      const relation = toOne.length > 0 && dice.chance(0.4) ? dice.one(toOne) : undefined
      const [of, isDown] = [relation?.to ?? name, dice.chance(0.5)]
      const field = dice.one(sortable(state, of, version))
      const text = `${relation ? `${relation.name}.` : ''}${memberOf(state.world.shapes[of], version, field)}`
      return { sort: { field, isDown, ...(relation && { relation }) }, text }
    })
    const distinct = sorts.filter(({ text }, at) => sorts.findIndex((one) => one.text === text) === at)
    query.sort = distinct.map(({ sort }) => sort)
    query.sort.map(reach)
    add('sort', distinct.map(({ sort, text }) => (sort.isDown ? '-' : '') + text).join())
  }
  const hidden = version === 'v1' ? (shape.view?.hide ?? []) : []
  if (hidden.length > 0 && dice.chance(0.15)) {
    const field = dice.one(hidden)
    const value = String(drawValue(dice, state, name, field))
    drawn.isUnknown = dice.chance(0.5) ? add('sort', field) : add(field, value)
  }
  return drawn
}

export const searched = ({ world }: State, name: Name, version: Version) =>
  world.shapes[name].search.filter((field) => memberOf(world.shapes[name], version, field) !== undefined)

/** Generates the query parameters of a request for one row: `fields` and `expand`. */
export function drawRead(dice: Dice, state: State, name: Name, version: Version): DrawnRead {
  const query: Query = { filters: [], or: [], q: null, sort: [], under: null }
  const drawn: DrawnRead = { parameters: [], query, fields: [], expand: [], reached: new Set(), isUnknown: false }
  if (dice.chance(0.35)) {
    for (let left = 1 + dice.int(2); left > 0; left--) drawPath(dice, state, name, version, drawn)
  }
  if (dice.chance(0.2)) {
    const shape = state.world.shapes[name]
    const own = shownFields(shape).map((field) => memberOf(shape, version, field) ?? field)
    const inner = drawn.expand.flatMap((path) => [path.join('.'), `${path.join('.')}.id`, `${path.join('.')}.tenant`])
    drawn.fields = dice.some(['id', 'createdBy', 'pin', ...own, ...inner], 0.3)
    if (drawn.fields.length > 0) drawn.parameters.push(['fields', drawn.fields.join()])
  }
  if (drawn.expand.length > 0) drawn.parameters.push(['expand', drawn.expand.map((path) => path.join('.')).join()])
  return drawn
}

/** Picks a path of at most three relations. */
function drawPath(dice: Dice, state: State, name: Name, version: Version, drawn: DrawnRead): void {
  const path: string[] = []
  for (let [at, left] = [name, 1 + dice.int(3)]; left > 0; left--) {
    const relations: Relation[] = relationsOf(state.world, at, version)
    if (relations.length === 0) break
    const relation = dice.one(relations)
    path.push(relation.name)
    drawn.reached.add(relation.to)
    at = relation.to
  }
  if (path.length > 0) drawn.expand.push(path)
}

/** Generates a body with the collection's own field names; a patch may remove optional fields. */
export function drawBody(dice: Dice, state: State, name: Name, kind: 'whole' | 'patch', { tenant }: Person): Members {
  const shape = state.world.shapes[name]
  const body: Members = {}
  for (const field of storedFields(shape)) {
    const known = shape.fields[field] ?? shape.links[field.slice(0, -2)]
    if (kind === 'patch' ? dice.chance(0.65) : !known?.isRequired && dice.chance(0.35)) continue
    const isRemoved = kind === 'patch' && !known?.isRequired && dice.chance(0.2)
    const isOwn = field === 'tenant' && tenant !== undefined && dice.chance(0.5)
    body[field] = isRemoved ? null : isOwn ? tenant : drawValue(dice, state, name, field)
  }
  return body
}

/** Renames a body's fields for a version. Hidden fields keep their own names, which the version ignores. */
export const inVersion = ({ world }: State, name: Name, version: Version, body: Members): Members =>
  Object.fromEntries(
    Object.entries(body).map(([field, value]) => [memberOf(world.shapes[name], version, field) ?? field, value]),
  )
