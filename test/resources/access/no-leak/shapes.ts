export const names = ['ants', 'bees', 'cats', 'dogs'] as const
export type Name = (typeof names)[number]
export const nounOf = (name: Name) => name.slice(0, -1)

export type Kind = 'text' | 'integer' | 'decimal' | 'boolean' | 'day' | 'enum' | 'reference'
export interface Field {
  kind: Kind
  isRequired: boolean
}

export interface Link {
  to: Name
  isRequired: boolean
  onDelete: 'restrict' | 'cascade' | 'setNull'
}

/** A condition in which `$tenant` and `$me` stand for the caller's tenant and id. */
export type Condition = { readonly [member: string]: unknown }
/** `is` and `may` give access to callers with a role or a scope; `otherwise` applies to all other callers. */
export type Rule = boolean | Condition | { is: string; otherwise: Rule } | { may: string; otherwise: Rule }

/** A sum over the referring rows, or their count if `field` is null. */
export interface Total {
  from: Name
  field: string | null
}

/** The properties of a generated collection. */
export interface Shape {
  fields: Record<string, Field>
  /** The references, by relation name; the name of the reference field is the relation name plus `Id`. */
  links: Record<string, Link>
  access: 'none' | { of: string } | { read: Rule; write: Rule }
  locked: Condition | null
  whens: Record<string, Condition>
  totals: Record<string, Total>
  filters: string[]
  ranges: string[]
  sorts: string[]
  search: string[]
  unique: string[][]
  writeOnly: string[]
  immutable: string[]
  /** True if new rows get the caller's tenant. */
  setsTenant: boolean
  hasLinks: boolean
  /** The view that v1 serves; null if it serves the collection itself. */
  view: { rename: Record<string, string>; hide: string[]; defaults: Record<string, unknown> } | null
}

/** A generated service definition: its collections and a report type. */
export interface World {
  names: Name[]
  shapes: Record<Name, Shape>
  report: { of: Name; where: Condition | null; group: string | null; sum: string | null }
}

/** The possible values of each field. */
export const pools: Readonly<Record<string, readonly unknown[]>> = {
  tenant: ['north', 'South', 'south', 'North'],
  title: ['Ab', 'ab', 'a b', 'É', '%', 'ba'],
  level: [0, 1, 2, -1],
  price: ['0.00', '1.50', '-1.50', '12.00'],
  isOpen: [true, false],
  due: ['2026-02-28', '2026-03-01', '2026-03-02'],
  status: ['draft', 'sent', 'paid'],
  pin: ['p1', 'p2'],
}
export const kinds: Readonly<Record<string, Kind>> = {
  ...{ tenant: 'text', title: 'text', level: 'integer', price: 'decimal', isOpen: 'boolean', due: 'day' },
  ...{ status: 'enum', pin: 'text' },
}
export const kindOf = ({ fields, links, whens, totals }: Shape, field: string): Kind => {
  const total = totals[field]
  if (total) return total.field === 'price' ? 'decimal' : 'integer'
  if (field in whens) return 'boolean'
  return fields[field]?.kind ?? (links[field.replace(/Id$/, '')] ? 'reference' : 'text')
}

export const linkFields = ({ links }: Shape) => Object.keys(links).map((name) => `${name}Id`)

/** Returns the relation by which `child` refers to `parent`; undefined unless there is exactly one. */
export function childLink({ shapes }: Pick<World, 'shapes'>, parent: Name, child: Name): string | undefined {
  const links = Object.entries(shapes[child].links).filter(([, { to }]) => to === parent)
  return links.length === 1 ? links[0]?.[0] : undefined
}

const operators: Readonly<Record<Kind, readonly string[]>> = {
  text: ['in', 'not', 'null', 'prefix'],
  enum: ['in', 'not', 'null'],
  boolean: ['in', 'not', 'null'],
  reference: ['in', 'not', 'null'],
  integer: ['in', 'not', 'null', 'from', 'to', 'before', 'after'],
  decimal: ['in', 'not', 'null', 'from', 'to', 'before', 'after'],
  day: ['in', 'not', 'null', 'from', 'to', 'before', 'after'],
}
export const operatorsOf = (kind: Kind) => operators[kind]
