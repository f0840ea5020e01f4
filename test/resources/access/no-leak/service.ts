import { Day, Decimal, Line, plinth, Ref, report, Type, view } from '../../../../src/plinth.ts'
import type { Collection } from '../../../../src/resources/declaration.ts'
import { type Asker, ruleFor } from './rules.ts'
import { type Field, type Kind, type Name, nounOf, pools, type Rule, type Shape, type World } from './shapes.ts'

const schemas: Record<Exclude<Kind, 'reference'>, () => unknown> = {
  text: () => Line(1, 40),
  integer: () => Type.Integer(),
  decimal: () => Decimal(9, 2),
  boolean: () => Type.Boolean(),
  day: () => Day,
  enum: () => Type.Enum(pools.status as string[]),
}

const schemaOf = ({ kind, isRequired }: Field) => {
  const schema = schemas[kind as Exclude<Kind, 'reference'>]() as typeof Day
  return isRequired ? schema : Type.Optional(schema)
}

interface Caller {
  id: string
  claims: { tenant?: string | undefined }
  is: (role: string) => boolean
  may: (scope: string) => boolean
}
const askerOf = ({ id, claims, is, may }: Caller): Asker => ({ id, tenant: claims.tenant, is, may })

/**
 * Builds the service of a generated definition. While `rules.areOn` is false, every rule is `true`, so that rows can be
 * created.
 */
export function definitionOf({ names, shapes, report: typed }: World, rules: { areOn: boolean }) {
  const { collection, service } = plinth({
    users: { fields: Type.Object({ tenant: Line(1, 40) }), roles: ['auditor'] },
    claims: ({ user, client }) => ({ tenant: user?.tenant ?? client.labels.tenant }),
  })
  const made = new Map<Name, Collection>()
  const ruleOf = (rule: Rule) => (caller: Caller) => (rules.areOn ? ruleFor(rule, askerOf(caller)) : true)
  for (const name of names) {
    const shape = shapes[name]
    const references = Object.entries(shape.links).map(([link, { to, isRequired, onDelete }]) => {
      const schema = Ref(to === name ? 'self' : (made.get(to) as Collection), { onDelete })
      return [`${link}Id`, isRequired ? schema : Type.Optional(schema)]
    })
    const fields = Object.entries(shape.fields).map(([field, drawn]) => [field, schemaOf(drawn)])
    const { filters, ranges, sorts, search, unique, writeOnly, immutable } = shape
    const options = {
      ...{ path: `/${name}`, noun: nounOf(name), body: Type.Object(Object.fromEntries([...fields, ...references])) },
      ...{ filters, ranges, sorts, search, unique, writeOnly, immutable, computed: computedOf(shape) },
      ...(shape.access !== 'none' && {
        access:
          'of' in shape.access ? shape.access : { read: ruleOf(shape.access.read), write: ruleOf(shape.access.write) },
      }),
      ...(shape.locked && { locked: shape.locked }),
      ...(shape.setsTenant && { set: { tenant: ({ caller }: { caller: Caller }) => caller.claims.tenant } }),
      ...(shape.hasLinks && { links: ({ id }: { id: number }) => ({ self: { href: `/${name}/${id}` } }) }),
    }
    made.set(name, collection(options as never) as Collection)
  }
  const resources = [...made.values()]
  const inV1 = names.map((name) => {
    const one = made.get(name) as Collection
    return shapes[name].view ? view(one, shapes[name].view as never) : one
  })
  return service({
    resources,
    versions: { v1: inV1, v2: resources },
    reports: [report(made.get(typed.of) as Collection, typedOptions(typed) as never)],
  })
}

const computedOf = ({ whens, totals }: Shape) => ({
  ...Object.fromEntries(Object.entries(whens).map(([field, when]) => [field, { when }])),
  ...Object.fromEntries(
    Object.entries(totals).map(([field, { from, field: summed }]) => {
      if (summed === null) return [field, { count: from }]
      return [field, { sum: `${from}.${summed}`, as: summed === 'price' ? Decimal(12, 2) : Type.Integer() }]
    }),
  ),
})

const typedOptions = ({ where, group, sum }: World['report']) => ({
  name: 'summary',
  ...(where && { where: () => where }),
  ...(group && { group: { [group]: group } }),
  show: { rows: 'count', ...(sum && { total: { sum } }) },
})
