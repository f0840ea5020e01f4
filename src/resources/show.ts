import { type TSchema, Type } from 'typebox'
import type { Row } from '../db/rows.ts'
import type { Revised } from '../http/conditional.ts'
import { callerOf } from '../http/identify.ts'
import type { Declaration, Link, Served } from './declaration.ts'

/** Row → representation: links added, absent fields and hidden ones left out. */
export function shower({ body, hides, links }: Declaration, prefix: string): Served['show'] {
  const complete = Object.keys(body.properties).every((name) => body.required?.includes(name))
  // Nothing can be absent, hidden or added: the row is its own representation.
  if (complete && !hides && !links) return (row) => row
  return (row, request) => {
    const reduced = hides !== undefined && !hides.unless(callerOf(request), row.id)
    const shown: Record<string, unknown> = {}
    for (const name in row) {
      if (row[name] !== null && !(reduced && hides.fields.includes(name))) shown[name] = row[name]
    }
    if (reduced) shown.view = 'reduced'
    if (links) shown._links = prefixed(links(row), prefix)
    return shown as unknown as Revised
  }
}

const prefixed = (links: Record<string, Link>, prefix: string) =>
  Object.fromEntries(Object.entries(links).map(([name, link]) => [name, { ...link, href: prefix + link.href }]))

const linkSchema = Type.Object({ href: Type.String(), method: Type.Optional(Type.String()) })

/** The representation, every field optional because `fields` may leave it out. */
export function representation({ body, links }: Declaration, only?: readonly string[]): TSchema {
  const all: Record<string, TSchema> = {
    id: Type.Integer({ minimum: 1 }),
    ...body.properties,
    createdAt: Type.String({ format: 'date-time' }),
    updatedAt: Type.String({ format: 'date-time' }),
    ...(links && { _links: Type.Record(Type.String(), linkSchema) }),
  }
  const names = only ?? Object.keys(all)
  return Type.Partial(Type.Object(Object.fromEntries(names.map((name) => [name, all[name] as TSchema]))))
}

/** Row → item of a list: the listed fields and the links. */
export const listShow =
  ({ declaration: { listed, links }, prefix }: Served) =>
  (row: Row): object => {
    const shown: Record<string, unknown> = {}
    for (const name of listed ?? Object.keys(row)) {
      if (row[name] !== null && name !== 'revision') shown[name] = row[name]
    }
    if (links) shown._links = prefixed(links(row), prefix)
    return shown
  }

/** The report of a resource: its table's columns, without the fields that only some callers see. */
export function reportOf({ path, table, body, hides, publicRead, ...rules }: Declaration) {
  const { filters, ranges, search, folded = [], sorts } = rules
  const shown = Object.entries(body.properties).filter(([name]) => !hides?.fields.includes(name))
  const columns = shown.map(([name, schema]) => ({ name, type: (schema as { type: 'string' | 'number' }).type }))
  const instants = ['createdAt', 'updatedAt'].map((name) => ({ name, type: 'instant' as const }))
  return {
    name: path.slice(1),
    table,
    scope: publicRead ? null : `${path.slice(1)}:read`,
    columns: [{ name: 'id', type: 'integer' as const }, ...columns, ...instants],
    ...(filters && { filters }),
    ...(ranges && { ranges }),
    folded: [...search, ...folded],
    sorts,
  }
}
