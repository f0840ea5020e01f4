import { idOf, type Person } from './people.ts'
import type { Condition, Link, Name, Rule, World } from './shapes.ts'

/** A stored row. Absent fields are missing or undefined. */
export interface Row {
  readonly id: number
  readonly revision: number
  readonly createdAt: string
  readonly updatedAt: string
  readonly createdBy?: string
  readonly [field: string]: unknown
}
export type Rows = Record<Name, Map<number, Row>>

/** The state at one point in time, which determines rules, locks and computed fields. */
export interface State {
  world: World
  rows: Rows
  /** False while the first rows are created: every rule is then `true`. */
  areRulesOn: boolean
  /** The current day. */
  today: string
}

/** The properties of a caller that rules can use. */
export interface Asker {
  id: string
  tenant: string | undefined
  is: (role: string) => boolean
  may: (scope: string) => boolean
}

export const askerOf = (person: Person): Asker => ({
  id: idOf(person),
  tenant: person.tenant,
  is: (role) => role === person.role || (role === 'admin' && person.isAdmin),
  may: (scope) => person.scopes.includes(scope),
})

/** Returns the result of a rule for a caller, as an `access` function would: `true`, `false` or a condition. */
export function ruleFor(rule: Rule, asker: Asker): boolean | Condition {
  if (typeof rule === 'boolean') return rule
  if ('is' in rule) return asker.is(rule.is as string) || ruleFor(rule.otherwise as Rule, asker)
  if ('may' in rule) return asker.may(rule.may as string) || ruleFor(rule.otherwise as Rule, asker)
  return filled(rule, asker) as Condition
}

function filled(value: unknown, asker: Asker): unknown {
  if (value === '$tenant') return asker.tenant
  if (value === '$me') return asker.id
  if (Array.isArray(value)) return value.map((part) => filled(part, asker))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, filled(part, asker)]))
}

/** Returns the row to which a row refers. */
export function referred({ world, rows }: State, name: Name, relation: string, row: Row): Row | undefined {
  const { to } = world.shapes[name].links[relation] as Link
  return rows[to].get(row[`${relation}Id`] as number)
}

export function meets(state: State, condition: boolean | Condition, name: Name, row: Row): boolean {
  if (typeof condition === 'boolean') return condition
  return Object.entries(condition).every(([member, wanted]) => {
    if (member === 'any') return (wanted as Condition[]).some((part) => meets(state, part, name, row))
    if (member === 'all') return (wanted as Condition[]).every((part) => meets(state, part, name, row))
    const link = state.world.shapes[name].links[member]
    if (link === undefined) return matches(wanted, row[member], state.today)
    if (wanted === null) return false
    const other = referred(state, name, member, row)
    return other !== undefined && meets(state, wanted as Condition, link.to, other)
  })
}

/** Returns whether a value meets a condition on its field; text is compared case-sensitively. */
function matches(wanted: unknown, value: unknown, today: string): boolean {
  if (typeof wanted !== 'object' || wanted === null) return isEqual(value, wanted, today)
  return Object.entries(wanted).every(([operator, operand]) => {
    if (operand === undefined || operand === null) return false
    if (operator === 'null') return (value === undefined) === operand
    if (operator === 'not') return value === undefined || !isEqual(value, operand, today)
    if (value === undefined) return false
    if (operator === 'in') return (operand as unknown[]).some((one) => isEqual(value, one, today))
    if (operator === 'prefix') return String(value).startsWith(String(operand))
    return inRange(operator, value, operand === 'today' ? today : operand)
  })
}

const isEqual = (value: unknown, wanted: unknown, today: string) =>
  value !== undefined && wanted !== undefined && wanted !== null && value === (wanted === 'today' ? today : wanted)

/** Returns whether a number, decimal or day is within a bound. */
export function inRange(operator: string, value: unknown, operand: unknown): boolean {
  const isDay = /^\d{4}-\d\d-\d\d$/.test(String(value))
  const [one, other] = isDay ? [String(value), String(operand)] : [Number(value), Number(operand)]
  if (operator === 'from') return one >= other
  if (operator === 'to') return one <= other
  return operator === 'before' ? one < other : one > other
}

function passes(state: State, name: Name, kind: 'read' | 'write', row: Row, asker: Asker): boolean {
  const { access, links } = state.world.shapes[name]
  if (access === 'none') return true
  if (!('of' in access)) return !state.areRulesOn || meets(state, ruleFor(access[kind], asker), name, row)
  const parent = referred(state, name, access.of, row)
  return parent !== undefined && passesWith(state, (links[access.of] as Link).to, kind, parent, asker)
}

/** A caller can write only readable rows; this also applies to the row that provides the rules. */
const passesWith = (state: State, name: Name, kind: 'read' | 'write', row: Row, asker: Asker) =>
  passes(state, name, 'read', row, asker) && (kind === 'read' || passes(state, name, 'write', row, asker))

export const canRead = (state: State, name: Name, row: Row, asker: Asker) => passesWith(state, name, 'read', row, asker)
export const canWrite = (state: State, name: Name, row: Row, asker: Asker) =>
  passesWith(state, name, 'write', row, asker)

/** Returns true if a row is locked: by its own condition, or because the row that provides its rules is locked. */
export function isLocked(state: State, name: Name, row: Row): boolean {
  const { locked, access, links } = state.world.shapes[name]
  if (locked !== null && meets(state, locked, name, row)) return true
  if (access === 'none' || !('of' in access)) return false
  const parent = referred(state, name, access.of, row)
  return parent !== undefined && isLocked(state, (links[access.of] as Link).to, parent)
}
