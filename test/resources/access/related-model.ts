import fc from 'fast-check'
import { collection, plinth, Ref, Type } from '../../../src/plinth.ts'
import type { Collection } from '../../../src/resources/declaration.ts'

/** A generated condition: `me` stands for the caller's id, `mine` for the caller's tenant. */
export type Rule = boolean | { readonly [name: string]: unknown }
type OnDelete = 'restrict' | 'cascade' | 'setNull'

/** A reference from a generated collection to an earlier one, or to itself. */
interface Link {
  to: Name
  isRequired: boolean
  onDelete: OnDelete
}
export const names = ['regions', 'customers', 'invoices', 'lines'] as const
export type Name = (typeof names)[number]
export const nounOf = (name: Name) => name.slice(0, -1)

interface Shape {
  /** The references, by relation name. */
  links: Readonly<Record<string, Link>>
  /** `rules`: the collection has rules of its own. `of`: the relation to the collection that provides the rules. */
  access: 'rules' | 'none' | { of: string }
}
export type Shapes = Readonly<Record<Name, Shape>>

const link = (to: Name): fc.Arbitrary<Link> =>
  fc
    .record({ isRequired: fc.boolean(), onDelete: fc.constantFrom<OnDelete>('restrict', 'cascade', 'setNull') })
    .map(({ isRequired, onDelete }) => ({
      to,
      isRequired: isRequired && onDelete !== 'setNull',
      onDelete,
    }))
const self = (to: Name) => link(to).map((one) => ({ ...one, isRequired: false }))
const access = (...relations: string[]) =>
  fc.constantFrom<Shape['access']>('rules', 'rules', 'none', ...relations.map((of) => ({ of })))

/** Random definitions. A collection can take its rules only from a collection that has some. */
export const shapes: fc.Arbitrary<Shapes> = fc
  .record({
    regions: fc.record({ links: fc.constant({}), access: access() }),
    customers: fc.record({
      links: fc.record({ region: link('regions'), upper: self('customers') }, { requiredKeys: ['region'] }),
      access: access('region', 'region'),
    }),
    invoices: fc.record({
      links: fc.record({ customer: link('customers'), payer: self('customers') }, { requiredKeys: ['customer'] }),
      access: access('customer', 'customer'),
    }),
    lines: fc.record({
      links: fc.record({ invoice: link('invoices'), region: self('regions') }, { requiredKeys: ['invoice'] }),
      access: access('invoice', 'invoice', 'region'),
    }),
  })
  .map((drawn) => {
    const known = drawn as Record<Name, Shape>
    for (const name of names) {
      const { access, links } = known[name]
      if (typeof access !== 'object') continue
      const to = links[access.of]?.to
      if (to === undefined || known[to].access === 'none') known[name] = { links, access: 'rules' }
    }
    return known
  })

export const tenants = ['north', 'south', 'North'] as const
const tenantOf = (id: string) => id.split('_')[1]

/** Replaces the placeholders in a rule with the caller's id and tenant. */
export function forCaller(rule: unknown, me: string): unknown {
  if (rule === 'me') return `client:${me}`
  if (rule === 'mine') return tenantOf(me)
  if (Array.isArray(rule)) return rule.map((part) => forCaller(part, me))
  if (typeof rule !== 'object' || rule === null) return rule
  return Object.fromEntries(Object.entries(rule).map(([name, value]) => [name, forCaller(value, me)]))
}

export type Rules = Record<Name, { read: Rule; write: Rule }>

/** Builds the service definition for these shapes. Rules are read from `rules` each time they are evaluated. */
export function definitionOf(shapes: Shapes, rules: Rules) {
  const { collection: claimed, service } = plinth({ claims: ({ client }) => ({ me: client.id }) })
  const made = new Map<Name, Collection>()
  for (const name of names) {
    const { links, access } = shapes[name]
    const references = Object.entries(links).map(([relation, { to, isRequired, onDelete }]) => {
      const schema = Ref(to === name ? 'self' : (made.get(to) as Collection), { onDelete })
      return [`${relation}Id`, isRequired ? schema : Type.Optional(schema)]
    })
    const rule = (kind: 'read' | 'write') => (caller: { claims: { me: string } }) =>
      forCaller(rules[name][kind], caller.claims.me)
    const options = {
      path: `/${name}`,
      noun: nounOf(name),
      body: Type.Object({
        tenant: Type.Optional(Type.String({ maxLength: 40 })),
        level: Type.Optional(Type.Integer()),
        ...Object.fromEntries(references),
      }),
      filters: ['tenant', 'level'],
      ...(access !== 'none' && { access: access === 'rules' ? { read: rule('read'), write: rule('write') } : access }),
    }
    made.set(name, access === 'none' ? collection(options as never) : claimed(options as never))
  }
  return service({ resources: [...made.values()] })
}

const comparison = fc.oneof<fc.Arbitrary<Rule>[]>(
  fc.record({ tenant: fc.constantFrom(...tenants, 'mine', null) }),
  fc.record({ tenant: fc.constant('mine') }),
  fc.record({ tenant: fc.record({ not: fc.constantFrom(...tenants, 'mine') }) }),
  fc.record({ tenant: fc.record({ in: fc.array(fc.constantFrom(...tenants, 'mine'), { maxLength: 2 }) }) }),
  fc.record({ tenant: fc.record({ null: fc.boolean() }) }),
  fc.record({ level: fc.integer({ min: 0, max: 2 }) }),
  fc.record({ level: fc.record({ from: fc.integer({ min: 0, max: 2 }) }) }),
)

/** Generates conditions on the rows of a collection and on the rows to which they refer. */
function condition(shapes: Shapes, name: Name): fc.Arbitrary<Rule> {
  const own = (of: Name) =>
    shapes[of].access === 'none' ? comparison : fc.oneof(comparison, fc.constant({ createdBy: 'me' }))
  const steps = Object.entries(shapes[name].links).map(([relation, { to }]) =>
    fc.record({ [relation]: fc.oneof(own(to), fc.record({ any: fc.array(own(to), { maxLength: 2 }) })) }),
  )
  const one = fc.oneof({ weight: 2, arbitrary: own(name) }, ...steps.map((arbitrary) => ({ weight: 2, arbitrary })))
  return fc.oneof(
    { weight: 4, arbitrary: one },
    { weight: 1, arbitrary: fc.record({ any: fc.array(one, { maxLength: 3 }) }) },
    { weight: 1, arbitrary: fc.record({ all: fc.array(one, { minLength: 1, maxLength: 2 }) }) },
  )
}

/** Generates a read and a write rule for each collection; some are simply `true` or `false`. */
export const rulesFor = (shapes: Shapes): fc.Arbitrary<Rules> => {
  const rule = (name: Name) =>
    fc.oneof<fc.Arbitrary<Rule>[]>(condition(shapes, name), condition(shapes, name), fc.constantFrom(true, true, false))
  const both = (name: Name) => fc.record({ read: rule(name), write: rule(name) })
  return fc.record({
    regions: both('regions'),
    customers: both('customers'),
    invoices: both('invoices'),
    lines: both('lines'),
  })
}

export interface Row {
  id: number
  createdBy?: string
  [field: string]: unknown
}

/** The naive model: rows in memory, evaluated without the code under test. */
export interface Model {
  rows: Record<Name, Map<number, Row>>
  shapes: Shapes
  rules: Rules
}

export const modelOf = (shapes: Shapes, rules: Rules): Model => ({
  rows: { regions: new Map(), customers: new Map(), invoices: new Map(), lines: new Map() },
  shapes,
  rules,
})

/** Returns the related row. */
export function related(model: Model, name: Name, relation: string, row: Row): Row | undefined {
  const { to } = model.shapes[name].links[relation] as Link
  return model.rows[to].get(row[`${relation}Id`] as number)
}

function allows(model: Model, name: Name, kind: 'read' | 'write', row: Row, who: string): boolean {
  const { access, links } = model.shapes[name]
  if (access === 'none') return true
  if (access === 'rules') return meets(model, forCaller(model.rules[name][kind], who), name, row)
  const parent = related(model, name, access.of, row)
  return parent !== undefined && allows(model, (links[access.of] as Link).to, kind, parent, who)
}

export function canRead(model: Model, name: Name, row: Row, who: string): boolean {
  return allows(model, name, 'read', row, who)
}

export function canWrite(model: Model, name: Name, row: Row, who: string): boolean {
  return canRead(model, name, row, who) && allows(model, name, 'write', row, who)
}

export function meets(model: Model, rule: unknown, name: Name, row: Row): boolean {
  if (typeof rule === 'boolean') return rule
  return Object.entries(rule as object).every(([member, wanted]) => {
    if (member === 'any') return (wanted as unknown[]).some((part) => meets(model, part, name, row))
    if (member === 'all') return (wanted as unknown[]).every((part) => meets(model, part, name, row))
    const step = model.shapes[name].links[member]
    if (step) {
      const other = related(model, name, member, row)
      return other !== undefined && meets(model, wanted, step.to, other)
    }
    return matches(wanted, row[member])
  })
}

function matches(wanted: unknown, value: unknown): boolean {
  if (wanted === undefined || wanted === null) return false
  if (typeof wanted !== 'object') return value === wanted
  const [[operator, operand] = []] = Object.entries(wanted)
  if (operand === undefined || operand === null) return false
  if (operator === 'null') return (value === undefined) === operand
  if (operator === 'not') return value !== operand
  if (value === undefined) return false
  if (operator === 'in') return (operand as unknown[]).includes(value)
  return Number(value) >= Number(operand)
}
