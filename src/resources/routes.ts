import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type TSchema, Type } from 'typebox'
import { Fields } from '../http/pagination.ts'
import { mergePatch } from '../http/policies/body-parsing.ts'
import type { ProblemCode } from '../http/problems/problem.ts'
import { capital } from '../openapi/schemas.ts'
import { patchOf } from './constraints/kept-fields.ts'
import type { CollectionOperation, Declaration, Served } from './declaration.ts'
import { idParams } from './id-types.ts'
import { lister } from './list.ts'
import { listQuerySchema, listRulesOf } from './list-parameters.ts'
import { cachedRows, read, readAllowed, sendChanged } from './reads/read.ts'
import { expandParameter } from './relations/expand.ts'
import { linksOf, nestedList } from './relations/nested-list.ts'
import { isReadable } from './relations/relations.ts'
import { listItemSerializer, representation } from './representation.ts'
import { servedResource } from './serve.ts'
import { listOrStream, rowOrStream, streamConfig } from './streams/routes.ts'
import type { BodyRequest, RowRequest, WrittenRow } from './writes/change.ts'
import { create, patch, readableReplay, removeRow, replace } from './writes/writes.ts'

/** Returns the options that all routes of a resource have, such as URL, scope, cacheability and operation id. */
function route(served: Served, operation: CollectionOperation, method: string, title: string) {
  const { declaration, publicRead, relations } = served
  const { path, name, noun, writers } = declaration
  const isChange = operation === 'replace' || operation === 'patch'
  const isRead = operation === 'list' || operation === 'read'
  const isSingle = operation !== 'list' && operation !== 'create'
  const isPublic = isRead && declaration.publicRead
  const scope = isPublic ? (publicRead ? 'public' : 'any') : `${name}:${isRead ? 'read' : 'write'}`
  return {
    method,
    url: isSingle ? `${path}/:id` : path,
    config: {
      scope,
      ...(isChange && writers?.orScope && { orScope: writers.orScope }),
      cache: isRead ? (isPublic && publicRead && !changesWithTime(declaration) ? 'public' : 'private') : 'none',
      ...{ fields: isRead, ...(operation === 'read' && linksOf(served)) },
      problems: isRead ? readProblems(isPublic, relations) : writeProblems(served, operation),
    },
    about: {
      tags: [name],
      operationId:
        operationVerb(operation) + (operation === 'list' ? name.split('-').map(capital).join('') : capital(noun)),
      summary: title,
      ...(isSingle && { params: idParams(declaration.ids) }),
    },
  } as const
}

const operationVerb = (operation: CollectionOperation) => (operation === 'remove' ? 'delete' : operation)

/** Returns the additional error codes of a public read that can expand non-public relations. */
const readProblems = (isPublic: boolean, relations: Served['relations']): readonly ProblemCode[] =>
  isPublic && relations.some(({ declaration }) => declaration.readScope !== null)
    ? ['AUTH_REQUIRED', 'ACCESS_DENIED']
    : []

/** Returns the error codes of a write, in addition to those of every route. */
function writeProblems(
  { declaration, guard, isReferred, lock, meetsLocks, hooks }: Served,
  operation: CollectionOperation,
): readonly ProblemCode[] {
  const { unique, tuples, set, access } = declaration
  const isPlaced = operation !== 'create' || lock?.placed !== undefined
  const isLocking = operation === 'remove' ? meetsLocks : lock !== undefined && isPlaced
  const isDenied = access !== undefined || (operation === 'create' && Object.keys(set).length > 0)
  const refusals = hooks ? (['STATE_CONFLICT', 'VALIDATION_ERROR'] as const) : []
  const locking = isLocking ? (['RESOURCE_LOCKED'] as const) : []
  const denials = [...(isDenied ? (['PERMISSION_DENIED'] as const) : []), ...locking, ...refusals]
  if (operation === 'remove')
    return [...(guard?.removalProblems ?? []), ...(isReferred ? ['RESOURCE_IN_USE' as const] : []), ...denials]
  return [...(unique.length + tuples.length > 0 ? ['DUPLICATE_RESOURCE' as const] : []), ...denials]
}

const wholeOf = ({ declaration, relations }: Served) => representation(declaration, undefined, relations)

/** Returns the routes of nested lists: under each row of this resource, the rows that refer to it. */
export function nestedLists(served: Served): RouteOptions[] {
  const { relations, declaration, related, prefix } = served
  if (!isReadable(declaration)) return []
  return relations
    .filter((relation) => relation.isMany && relation.declaration.operations.includes('list'))
    .map((relation) => {
      const child = servedResource(relation.declaration, { ...served, related, guard: undefined }, prefix)
      return nestedList(served, child, relation, routes.list(child))
    })
}

/** The routes of a resource, by operation. */
export const routes: Record<CollectionOperation, (served: Served) => RouteOptions> = {
  list: (served) => {
    const { declaration, prefix, relations, expand } = served
    const { about, ...common } = route(served, 'list', 'GET', `List ${declaration.name.replaceAll('-', ' ')}`)
    const rules = listRulesOf(served, prefix + declaration.path)
    const response = { 200: Type.Array(representation(declaration, declaration.listed, relations)) }
    const serialize = listItemSerializer(served)
    const { handler, cached } = lister(served, rules, serialize, relations.length > 0 ? { expand } : {})
    const config = { ...common.config, ...(cached && { cached }), ...streamConfig(served) }
    const schema = { ...about, querystring: listQuerySchema(rules), response }
    return { ...common, config, schema, handler: listOrStream(served, { rules, serialize }, handler) }
  },
  read: (served) => {
    const { about, ...common } = route(served, 'read', 'GET', `Read a ${served.declaration.noun}`)
    const response = { 200: wholeOf(served) }
    const schema = {
      ...about,
      querystring: Type.Object({ fields: Fields, ...expandParameter(served.relations) }),
      response,
    }
    const respond = served.accessOf ? readAllowed : read
    const config = { ...common.config, ...cachedRows(served), ...streamConfig(served) }
    const handler = rowOrStream(served, (request, reply) => respond(served, request as RowRequest, reply))
    return { ...common, config, schema, handler }
  },
  create: (served) => {
    const { about, ...common } = route(served, 'create', 'POST', `Create a ${served.declaration.noun}`)
    const schema = { ...about, body: served.declaration.creation, response: { 201: wholeOf(served) } }
    const config = { ...common.config, minimal: true, ...(served.accessOf && { checkReplay: readableReplay(served) }) }
    return { ...common, config, schema, handler: (request, reply) => create(served, request as BodyRequest, reply) }
  },
  replace: (served) => changes(served, 'replace', 'PUT', 'Replace', served.declaration.replacement),
  patch: (served) => changes(served, 'patch', 'PATCH', 'Change', patchOf(served.declaration)),
  remove: (served) => {
    const { about, ...common } = route(served, 'remove', 'DELETE', `Delete a ${served.declaration.noun}`)
    const handler = async (request: FastifyRequest, reply: FastifyReply) => {
      await removeRow(served, request as RowRequest)
      return reply.code(204).send()
    }
    return { ...common, schema: about, handler }
  },
}

/** Returns true if representations can change although their rows do not. Caches must then revalidate responses. */
const changesWithTime = ({ computed }: Declaration) =>
  computed.usesToday || Object.values(computed.derived).some(({ usesClock }) => usesClock)

const write: Record<'replace' | 'patch', (served: Served, request: BodyRequest) => Promise<WrittenRow>> = {
  replace,
  patch,
}

/** Returns the route of PUT or PATCH, which responds with the changed resource and its new validators. */
function changes(served: Served, operation: keyof typeof write, method: string, verb: string, body: TSchema) {
  const { about, ...common } = route(served, operation, method, `${verb} a ${served.declaration.noun}`)
  const members = Object.keys(served.declaration.patchable.properties)
  return {
    ...common,
    config: {
      ...common.config,
      minimal: true,
      ...(operation === 'patch' ? { accepts: [mergePatch], members } : { accepts: [] }),
    },
    schema: { ...about, body, response: { 200: wholeOf(served) } },
    handler: async (request: FastifyRequest, reply: FastifyReply) =>
      sendChanged(served, request as RowRequest, reply, await write[operation](served, request as BodyRequest)),
  }
}
