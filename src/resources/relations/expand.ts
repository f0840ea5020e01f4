import type { FastifyReply, FastifyRequest } from 'fastify'
import { type TSchema, Type } from 'typebox'
import { callerOf } from '../../http/policies/authenticate.ts'
import { cachePrivately } from '../../http/policies/caching.ts'
import { malformedQuery } from '../../http/problems/problem.ts'
import { requesterOf } from '../../http/requester.ts'
import { compareIds, type RowId } from '../../storage/ids.ts'
import { passesAll, passesNone, type RowTest } from '../../storage/rows/row-test.ts'
import type { Row, Rows } from '../../storage/rows/rows.ts'
import type { AccessOf } from '../access/rules.ts'
import type { Declaration, Relation } from '../declaration.ts'
import { requireReadable } from './readable.ts'
import type { Expand, ReadableRows } from './reference.ts'

const maxDepth = 3
const maxNames = 10
/** Maximum number of related rows in one response. */
const maxExpanded = 1_000

/** Returns the schema of the `expand` parameter; none if the resource has no relations. */
export const expandParameter = (relations: readonly Relation[]): Record<string, TSchema> => {
  const names = relations.map(({ name }) => name)
  if (names.length === 0) return {}
  const description = `Related resources to include, comma-separated: ${names.join(', ')}; up to ${maxDepth} steps with dots`
  return { expand: Type.Optional(Type.String({ maxLength: 500, description, examples: [names[0]] })) }
}

/** A relation to include, and the relations to include in its rows. */
interface Expansion {
  relation: Relation
  below: Expansion[]
}

/** How `expand` accesses the collections in a version. */
export interface Expandable {
  relationsOf: (declaration: Declaration) => readonly Relation[]
  rowsOf: (declaration: Declaration) => Rows
  /** Returns the function that serializes the collection's rows as list items. */
  itemOf: (declaration: Declaration) => (row: Row) => object
  /** Returns the function that evaluates the collection's access rules; undefined if it has none. */
  accessOf: (declaration: Declaration) => AccessOf | undefined
}

/** An expansion in progress. */
interface Expanding extends Expandable {
  request: FastifyRequest
  reply: FastifyReply
  readable: ReadableRows | undefined
  /** The remaining number of related rows that the response may contain. */
  left: number
}

/**
 * Parses an `expand` parameter. Throws INVALID_INPUT for unknown or too many names, and 401 or 403 for collections that
 * the caller may not read.
 *
 * The result reads related rows with one query per relation, regardless of the number of rows, and throws INVALID_INPUT
 * if there are more related rows than a response may contain. It omits rows that access rules hide from the caller.
 */
export function expander(
  declaration: Declaration,
  text: string,
  { request, reply, on }: { request: FastifyRequest; reply: FastifyReply; on: Expandable },
): Expand {
  const paths = text.split(',').filter((path) => path !== '')
  if (paths.length > maxNames) throw malformedQuery('expand', `must have at most ${maxNames} names`)
  const expansions: Expansion[] = []
  const included = new Set<Declaration>()
  for (const path of paths) {
    const names = path.trim().split('.')
    if (names.length > maxDepth) throw malformedQuery('expand', `must have at most ${maxDepth} steps in each name`)
    let [of, at] = [declaration, expansions]
    for (const name of names) {
      const relation = relationOf(of, name, on)
      requireReadable(relation.declaration, request)
      included.add(relation.declaration)
      const known = at.find((expansion) => expansion.relation === relation)
      const expansion = known ?? { relation, below: [] }
      if (!known) at.push(expansion)
      ;[of, at] = [relation.declaration, expansion.below]
    }
  }
  const restricted = [...included].filter((one) => on.accessOf(one) !== undefined)
  const dependsOnTime = ({ computed }: Declaration) => computed.usesToday || Object.keys(computed.derived).length > 0
  return {
    isCacheable: ![...included].some(dependsOnTime),
    readable: () => (restricted.length > 0 ? readableRows(restricted, on, request, reply) : undefined),
    membersOf: (rows, readable) =>
      membersOf(declaration, rows, expansions, { ...on, request, reply, readable, left: maxExpanded }),
  }
}

async function readableRows(
  restricted: readonly Declaration[],
  { accessOf }: Expandable,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<ReadableRows> {
  cachePrivately(reply)
  const readable = new Map<string, RowTest>()
  for (const declaration of restricted) {
    const access = await accessOf(declaration)?.(callerOf(request))
    readable.set(declaration.path, access?.read ?? passesNone)
  }
  return readable
}

function relationOf(of: Declaration, name: string, on: Expandable): Relation {
  const relations = on.relationsOf(of)
  const relation = relations.find((one) => one.name === name)
  if (relation !== undefined) return relation
  const allowed = relations.length > 0 ? `use one of ${relations.map((one) => one.name).join(', ')}` : 'it has none'
  throw malformedQuery('expand', `names '${name.slice(0, 40)}', which is no relation of ${of.path}: ${allowed}`)
}

type Members = (row: Row) => Record<string, unknown>

async function membersOf(
  of: Declaration,
  rows: readonly Row[],
  expansions: readonly Expansion[],
  expanding: Expanding,
): Promise<Members> {
  const members: [name: string, of: (row: Row) => unknown][] = []
  for (const { relation, below } of expansions) {
    const { name, declaration, field, isMany } = relation
    const [own, other] = isMany ? ['id', field] : [field, 'id']
    const ids = [...new Set(rows.map((row) => row[own] ?? null).filter((id) => id !== null))] as RowId[]
    const rowsOf = expanding.rowsOf(declaration)
    const idType = isMany ? of.ids : declaration.ids
    const passing = passingFor(declaration, expanding)
    const found = ids.length === 0 ? [] : await rowsOf.related(other, { ids, idType }, expanding.left + 1, passing)
    expanding.left -= found.length
    if (expanding.left < 0) throw tooMany()
    const [item, more] = [expanding.itemOf(declaration), await membersOf(declaration, found, below, expanding)]
    const byKey = Map.groupBy(found.toSorted(byId), (row) => row[other])
    const memberOf = (row: Row) => ({ ...item(row), ...more(row) })
    const all = (row: Row) => (byKey.get(row[own]) ?? []).map(memberOf)
    members.push([name, isMany ? all : (row) => all(row)[0] ?? null])
  }
  return (row) => Object.fromEntries(members.map(([name, of]) => [name, of(row)]))
}

/** Returns the requester and the test for rows that the caller can read; undefined if the caller can read all rows. */
function passingFor({ path }: Declaration, { readable, request, reply }: Expanding) {
  const test = readable?.get(path)
  return test === undefined || test === passesAll ? undefined : { test, requester: requesterOf(request, reply) }
}

const byId = (left: Row, right: Row) => compareIds(left.id, right.id)

const tooMany = () =>
  malformedQuery(
    'expand',
    `adds more than ${maxExpanded} rows: use a smaller limit, or the list of the related resources`,
  )
