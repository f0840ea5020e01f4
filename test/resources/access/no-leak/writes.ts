import type { Members, Version } from './rows.ts'
import { hasLock, memberOf, withRow } from './rows.ts'
import { type Asker, canRead, canWrite, isLocked, type Row, referred, type State } from './rules.ts'
import { childLink, linkFields, type Name, nounOf, type Shape } from './shapes.ts'

/** An expected error response. */
export interface Refusal {
  status: number
  code: string
  errors?: { field: string; message: string }[]
}

/** A changed row, which causes an event. `seen` is the state that decides who receives the event. */
export interface Change {
  type: 'created' | 'updated' | 'deleted'
  name: Name
  row: Row
  seen: State
}

export interface Writing {
  state: State
  name: Name
  version: Version
  asker: Asker
  /** The scopes of the token. */
  scopes: readonly string[]
  now: string
}

export const fold = (text: string) => text.normalize('NFKC').toLowerCase().normalize('NFKC')

const refusal = (status: number, code: string, errors?: Refusal['errors']): Refusal => ({
  ...{ status, code, ...(errors && { errors }) },
})
export const denied = refusal(403, 'PERMISSION_DENIED')
export const absent = refusal(404, 'RESOURCE_NOT_FOUND')

/** Returns true for fields that bodies cannot set in a version. */
const isUnsettable = (shape: Shape, version: Version, field: string) =>
  (shape.setsTenant && field === 'tenant') || memberOf(shape, version, field) === undefined

/** Returns true for fields that a PUT keeps if it omits them. */
const isKept = (shape: Shape, version: Version, field: string) =>
  isUnsettable(shape, version, field) ||
  shape.writeOnly.includes(field) ||
  shape.immutable.includes(field) ||
  (version === 'v1' && field in (shape.view?.defaults ?? {}))

export const storedFields = (shape: Shape) => [...Object.keys(shape.fields), ...linkFields(shape)]

/** Returns the fields that a body must have; a PUT may omit fields whose values it keeps. */
export function requiredFields(shape: Shape, version: Version, isReplacement: boolean): string[] {
  return storedFields(shape).filter((field) => {
    const isRequired = shape.fields[field]?.isRequired ?? shape.links[field.slice(0, -2)]?.isRequired
    const isGiven = version === 'v1' && field in (shape.view?.defaults ?? {})
    if (isGiven || isUnsettable(shape, version, field)) return false
    return isRequired && !(isReplacement && isKept(shape, version, field))
  })
}

const present = (values: Members): Members =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined && value !== null))

/** Returns the values that a POST stores, or the expected error. `body` has the collection's own field names. */
export function creationOf({ state, name, version, asker }: Writing, body: Members): Members | Refusal {
  const shape = state.world.shapes[name]
  const sent = Object.entries(body).filter(([field]) => !isUnsettable(shape, version, field))
  const values = { ...(version === 'v1' && shape.view?.defaults), ...Object.fromEntries(sent) }
  if (!shape.setsTenant) return present(values)
  return asker.tenant === undefined ? denied : present({ ...values, tenant: asker.tenant })
}

/** Returns the values of a row after a PUT or PATCH. */
export function changedValues({ state, name, version }: Writing, row: Row, body: Members, isPatch: boolean): Members {
  const shape = state.world.shapes[name]
  const values: Members = {}
  for (const field of storedFields(shape)) {
    const isSent = field in body && !isUnsettable(shape, version, field)
    const isStaying = !isSent && (isPatch || isKept(shape, version, field))
    values[field] = isStaying ? row[field] : isSent ? body[field] : undefined
  }
  return present(values)
}

/** Returns the error for changing or deleting a row, regardless of the new values; undefined if there is none. */
export function refusedAt({ state, name, asker }: Writing, row: Row | undefined): Refusal | undefined {
  if (row === undefined || !canRead(state, name, row, asker)) return absent
  return canWrite(state, name, row, asker) ? undefined : denied
}

/** Returns the 422 for immutable fields that a body would change. */
export function immutableRefusal({ state, name, version }: Writing, row: Row, values: Members): Refusal | undefined {
  const shape = state.world.shapes[name]
  const changed = shape.immutable.filter((field) => row[field] !== values[field])
  if (changed.length === 0) return undefined
  const errors = changed.map((field) => ({
    field: memberOf(shape, version, field) ?? field,
    message: 'cannot be changed',
  }))
  return refusal(422, 'VALIDATION_ERROR', errors)
}

/** Returns the error for storing a row's new values; undefined if they can be stored. */
export function refusedValues(writing: Writing, row: Row, before: Row | undefined): Refusal | undefined {
  const { state, name, version, asker } = writing
  const shape = state.world.shapes[name]
  if (before !== undefined && isLocked(state, name, before)) return refusal(409, 'RESOURCE_LOCKED')
  const missing = Object.entries(shape.links).filter(([link, { to }]) => {
    const id = row[`${link}Id`]
    if (id === undefined || id === before?.[`${link}Id`]) return false
    const other = state.rows[to].get(id as number)
    return other === undefined || !canRead(state, to, other, asker)
  })
  if (missing.length > 0) {
    const errors = missing.map(([link, { to }]) => ({
      field: memberOf(shape, version, `${link}Id`) ?? `${link}Id`,
      message: `refers to no ${nounOf(to)}: there is no ${row[`${link}Id`]}`,
    }))
    return refusal(422, 'VALIDATION_ERROR', errors)
  }
  const after = withRow(state, name, row)
  const isStorable = canWrite(after, name, row, asker)
  const duplicate = shape.unique.find((tuple) => isDuplicate(state, name, row, tuple))
  if (!isStorable) return denied
  if (duplicate) return duplicateRefusal(shape, version, duplicate)
  const { access } = shape
  if (access === 'none' || !('of' in access) || !hasLock(state, name)) return undefined
  const parent = referred(after, name, access.of, row)
  const to = shape.links[access.of]?.to as Name
  return parent && isLocked(after, to, parent) ? refusal(409, 'RESOURCE_LOCKED') : undefined
}

function isDuplicate({ rows }: State, name: Name, row: Row, tuple: readonly string[]): boolean {
  const keyOf = (one: Row) => tuple.map((field) => (one[field] === undefined ? undefined : fold(String(one[field]))))
  const key = keyOf(row)
  if (key.includes(undefined)) return false
  return [...rows[name].values()].some((one) => one.id !== row.id && String(keyOf(one)) === String(key))
}

function duplicateRefusal(shape: Shape, version: Version, tuple: readonly string[]): Refusal {
  const members = tuple.map((field) => memberOf(shape, version, field)).filter((member) => member !== undefined)
  const errors = members.map((field) => {
    const others = members.filter((other) => other !== field)
    return { field, message: `is in use already${others.length > 0 ? ` together with ${others.join(' and ')}` : ''}` }
  })
  return refusal(409, 'DUPLICATE_RESOURCE', members.length > 0 ? errors : undefined)
}

/** Stores a new or changed row, and returns the changes. Rows with a sum or count over this row also change. */
export function store({ state, name, now }: Writing, row: Row, before: Row | undefined): Change[] {
  state.rows[name] = new Map(state.rows[name]).set(row.id, row)
  const summing = touchTotals(state, name, before ? [before, row] : [row], now)
  const seen = { ...state, rows: { ...state.rows } }
  const own: Change = { type: before ? 'updated' : 'created', name, row, seen }
  return [own, ...summing.map(([of, one]): Change => ({ type: 'updated', name: of, row: one, seen }))]
}

/** Marks every row with a sum or count over these rows as changed; returns the marked rows. */
function touchTotals(state: State, name: Name, touched: readonly Row[], now: string): [Name, Row][] {
  const found = new Map<string, [Name, Row]>()
  for (const parent of state.world.names) {
    const totals = Object.values(state.world.shapes[parent].totals).filter(({ from }) => from === name)
    const link = childLink(state.world, parent, name)
    if (totals.length === 0 || link === undefined) continue
    for (const child of touched) {
      const row = state.rows[parent].get(child[`${link}Id`] as number)
      if (row === undefined || found.has(`${parent} ${row.id}`)) continue
      const changed = { ...row, updatedAt: now }
      state.rows[parent] = new Map(state.rows[parent]).set(row.id, changed)
      found.set(`${parent} ${row.id}`, [parent, changed])
    }
  }
  return [...found.values()]
}

interface Referring {
  child: Name
  field: string
  row: Row
}

function referring({ world, rows }: State, to: Name, id: number, rule: string): Referring[] {
  return world.names.flatMap((child) =>
    Object.entries(world.shapes[child].links)
      .filter(([, link]) => link.to === to && link.onDelete === rule)
      .flatMap(([link]) =>
        [...rows[child].values()]
          .filter((row) => row[`${link}Id`] === id)
          .map((row) => ({ child, field: `${link}Id`, row })),
      ),
  )
}

/** Deletes a row and the rows that depend on it. Returns the changes, or the reason why it cannot be deleted. */
export function remove({ state, name, asker, scopes, now }: Writing, row: Row): Change[] | Refusal {
  if (isLocked(state, name, row)) return refusal(409, 'RESOURCE_LOCKED')
  const doomed: [Name, Row][] = [[name, row]]
  const isDoomed = (of: Name, id: number) => doomed.some(([other, one]) => other === of && one.id === id)
  for (const [parent, { id }] of doomed) {
    for (const { child, row } of referring(state, parent, id, 'cascade')) {
      if (!isDoomed(child, row.id)) doomed.push([child, row])
    }
  }
  const left = (rule: string) =>
    doomed
      .flatMap(([parent, { id }]) => referring(state, parent, id, rule))
      .filter((one) => !isDoomed(one.child, one.row.id))
  const users = Map.groupBy(left('restrict'), ({ child }) => child)
  if (users.size > 0) {
    const errors = [...users].map(([child, found]) => {
      const readable = scopes.includes(`${child}:read`)
        ? found.filter(({ row }) => canRead(state, child, row, asker))
        : []
      return {
        field: 'id',
        message: `is referred to by ${readable.length > 0 ? `${readable.length} ${child}` : child}`,
      }
    })
    return refusal(409, 'RESOURCE_IN_USE', errors)
  }
  const released = left('setNull')
  const affected = [...doomed, ...released.map(({ child, row }): [Name, Row] => [child, row])]
  const locked = new Set(affected.filter(([of, one]) => isLocked(state, of, one)).map(([of]) => of))
  if (locked.size > 0) {
    const errors = [...locked].map((of) => ({ field: 'id', message: `is referred to by locked ${of}` }))
    return refusal(409, 'RESOURCE_LOCKED', errors)
  }
  const before = { ...state, rows: { ...state.rows } }
  const updated = new Map<string, [Name, number]>()
  for (const { child, field, row } of released) {
    const current = state.rows[child].get(row.id) as Row
    state.rows[child] = new Map(state.rows[child]).set(row.id, { ...current, [field]: undefined, updatedAt: now })
    updated.set(`${child} ${row.id}`, [child, row.id])
  }
  for (const [of, { id }] of doomed) {
    state.rows[of] = new Map(state.rows[of])
    state.rows[of].delete(id)
  }
  for (const [of, one] of doomed) {
    for (const [parent, { id }] of touchTotals(state, of, [one], now)) updated.set(`${parent} ${id}`, [parent, id])
  }
  const seen = { ...state, rows: { ...state.rows } }
  return [
    ...doomed.map(([of, one]): Change => ({ type: 'deleted', name: of, row: one, seen: before })),
    ...[...updated.values()].map(([of, id]): Change => {
      return { type: 'updated', name: of, row: state.rows[of].get(id) as Row, seen }
    }),
  ]
}
