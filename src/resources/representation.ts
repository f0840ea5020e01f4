import { type TSchema, Type } from 'typebox'
import { decimalFormOf } from '../http/decimal.ts'
import { partialSchema } from '../http/partial-schema.ts'
import { callerOf } from '../http/policies/authenticate.ts'
import type { Versioned } from '../http/policies/conditional.ts'
import type { Row } from '../storage/rows/rows.ts'
import { amended, columnTypes } from './column-types.ts'
import type { Presenter } from './computed/present.ts'
import type { Declaration, Link, Relation, Served } from './declaration.ts'
import { idTypes } from './id-types.ts'

/** Returns the function that turns a row into its representation: it adds links and omits absent and hidden fields. */
export function serializer(
  { body, hides, links, access, writeOnly, view }: Declaration,
  prefix: string,
  presenter?: Presenter,
): Served['serialize'] {
  const complete = Object.keys(body.properties).every((name) => body.required?.includes(name))
  // If no field can be absent, hidden or added, the row is its own representation.
  if (complete && !hides && !links && !access && !view && !presenter && writeOnly.length === 0) return (row) => row
  return (stored, request) => {
    const row = presenter ? presenter.present(stored) : stored
    const isReduced = hides !== undefined && !hides.unless(callerOf(request), row.id)
    const visible: Record<string, unknown> = {}
    for (const name in row) {
      if (
        row[name] === null ||
        row[name] === undefined ||
        (isReduced && hides.fields.includes(name)) ||
        writeOnly.includes(name)
      )
        continue
      visible[name] = row[name]
    }
    if (view || isReduced) visible.view = viewName(view?.tag, isReduced)
    const variant = presenter?.variantOf(row)
    if (variant !== undefined) visible._variant = variant
    if (links) visible._links = prefixed(links(stored), prefix)
    return visible as unknown as Versioned
  }
}

/**
 * Returns a name that distinguishes different representations of the same revision: the view's tag, and whether fields
 * are hidden from the caller.
 */
const viewName = (tag: string | undefined, isReduced: boolean) =>
  [...(tag === undefined ? [] : [tag]), ...(isReduced ? ['reduced'] : [])].join('.')

const prefixed = (links: Record<string, Link>, prefix: string) =>
  Object.fromEntries(Object.entries(links).map(([name, link]) => [name, { ...link, href: prefix + link.href }]))

const linkSchema = Type.Object({ href: Type.String(), method: Type.Optional(Type.String()) })

type Represented = Pick<Declaration, 'ids' | 'shownBody' | 'links' | 'access' | 'writeOnly' | 'computed'>

/**
 * Returns the schema of a resource's representation, including the members that `expand` may add. If `only` is given,
 * the schema has only those fields.
 */
export function representation(
  { ids, shownBody, links, access, writeOnly, computed }: Represented,
  only?: readonly string[],
  relations: readonly Relation[] = [],
): TSchema {
  const all: Record<string, TSchema> = {
    id: idTypes[ids].schema(),
    ...shownBody.properties,
    createdAt: Type.String({ format: 'date-time' }),
    updatedAt: Type.String({ format: 'date-time' }),
    ...(access && { createdBy: CreatedBy }),
    ...(links && { _links: Type.Record(Type.String(), linkSchema) }),
  }
  const names = only ?? Object.keys(all).filter((name) => !writeOnly.includes(name))
  const pick = (of: Record<string, unknown>) =>
    Object.fromEntries(names.filter((name) => Object.hasOwn(of, name)).map((name) => [name, of[name]]))
  const examples = examplesOf({ ids, shownBody, links, access, computed }).map(pick)
  const properties = { ...(pick(all) as Record<string, TSchema>), ...membersOf(relations) }
  return partialSchema(Type.Object(properties), examples.length > 0 ? { examples } : {})
}

/**
 * Returns the schemas of the members that `expand` adds. They contain rows in the form of their collection's list
 * items.
 */
function membersOf(relations: readonly Relation[]): Record<string, TSchema> {
  const members = relations.map(({ name, declaration, isMany }) => {
    const { whole } = representation(declaration, declaration.listed) as unknown as { whole: TSchema }
    const member = isMany ? Type.Array(whole) : Type.Union([whole, Type.Null()])
    return [name, Type.Optional(amended(member, { description: `Only with expand=${name}` }))]
  })
  return Object.fromEntries(members)
}

const CreatedBy = Type.Optional(
  Type.String({
    description: 'The user or machine client that created it: `user:7` or `client:crm`',
    readOnly: true,
    examples: ['user:7'],
  }),
)

const instant = '2026-03-01T12:00:00.000Z'

/** Returns the examples of a body as representations, with the fields that the service adds. */
function examplesOf({
  ids,
  shownBody,
  links,
  access,
  computed,
}: Omit<Represented, 'writeOnly'>): Record<string, unknown>[] {
  const { examples = [] } = shownBody as { examples?: readonly object[] }
  return examples.map((example) => {
    const row = {
      id: idTypes[ids].example,
      ...example,
      ...Object.fromEntries(Object.keys(computed.whens).map((name) => [name, false])),
      ...computed.initial,
      createdAt: instant,
      updatedAt: instant,
      ...(access && { createdBy: 'user:7' }),
    } as unknown as Row
    return { ...row, ...(links && { _links: links(row) }) }
  })
}

/**
 * Returns the function that converts a row to a list item: the listed fields (default: all fields that every caller can
 * see) and the links. Absent fields are undefined, so JSON omits them.
 */
export function listItemSerializer({
  declaration: { shownBody, concealed, listed, links, access },
  prefix,
  presenter,
}: Pick<Served, 'declaration' | 'prefix' | 'presenter'>): (row: Row) => object {
  const visible = Object.keys(shownBody.properties).filter((name) => !concealed.includes(name))
  const names = listed ?? ['id', ...visible, 'createdAt', 'updatedAt', ...(access ? ['createdBy'] : [])]
  const members = names.map((name) => JSON.stringify(name)).map((name) => `${name}: row[${name}] ?? undefined`)
  // An object literal has one hidden class from the start, so it takes half the time of adding properties one by one.
  const build = new Function('row', '_links', `return { ${[...members, '_links'].join(', ')} }`)
  return (row) => build(presenter ? presenter.present(row) : row, links && prefixed(links(row), prefix))
}

/** Returns the report of a resource: the columns of its table, including sums and counts, except concealed fields. */
export function reportOf(declaration: Declaration) {
  const { name, table, ids, shownBody, shownKinds, computed, concealed, readScope, access } = declaration
  const { filters, ranges, folded, sorts, columns: storedAs } = declaration
  const visible = Object.entries(shownKinds).filter(
    ([field]) => !concealed.includes(field) && !Object.hasOwn(computed.whens, field),
  )
  const columns = visible.map(([field, kind]) => {
    const decimal = decimalFormOf(shownBody.properties[field] as TSchema)
    return { name: field, type: columnTypes[kind].cell, ...(decimal && { decimal }) }
  })
  const creator = { name: 'createdBy', type: 'string' as const }
  const instants = ['createdAt', 'updatedAt'].map((field) => ({ name: field, type: 'instant' as const }))
  return {
    ...{ name, table, storedAs, scope: readScope, filters, ranges, folded, sorts },
    columns: [{ name: 'id', type: idTypes[ids].cell }, ...columns, ...instants, ...(access ? [creator] : [])],
  }
}
