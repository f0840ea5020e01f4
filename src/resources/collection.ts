import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type TObject, type TSchema, Type } from 'typebox'
import { decimalReader } from '../http/decimal.ts'
import { isUnconditionalRead, representationOf, sendRepresentation } from '../http/fast-read.ts'
import { Fields } from '../http/pagination.ts'
import { inputValidator, mergePatch } from '../http/policies/body-parsing.ts'
import type { ProblemCode } from '../http/problems/problem.ts'
import { type Row, rowsOf } from '../storage/rows/rows.ts'
import { eventPublisher, hasSubscriber } from './change-events.ts'
import { columnType } from './column-types.ts'
import type {
  Collection,
  CollectionOperation,
  CollectionOptions,
  Declaration,
  Guard,
  ResourceOptions,
  Served,
} from './declaration.ts'
import { defaultFiller } from './defaults.ts'
import { defineResource } from './define.ts'
import { lister } from './list.ts'
import { listQuerySchema } from './list-query.ts'
import { capital } from './queries/bounds.ts'
import { listItemSerializer, representation, serializer } from './representation.ts'
import { representationCache } from './representation-cache.ts'
import { codecsOf } from './table.ts'
import { type BodyRequest, create, notFound, patch, type RowRequest, removeRow, replace } from './writes.ts'

/**
 * Declares a resource: its HTTP operations (list, create, read, replace, patch, remove), events, report and table. Throws
 * `DefinitionError`, which lists every error in the declaration.
 */
export function collection<B extends TObject>(options: ResourceOptions<B>): Collection {
  const declaration = defineResource(options)
  return Object.freeze({
    declaration,
    plugin: async (app, options) => {
      const served = serve(declaration, options, app.prefix)
      for (const operation of declaration.operations) app.route(routes[operation](served))
    },
  } satisfies Collection)
}

function serve(declaration: Declaration, options: CollectionOptions, prefix: string): Served {
  const { table, folded, blank, kinds, body, input, sorts } = declaration
  const fieldNames = Object.keys(kinds)
  const types = Object.entries(kinds).map(([name, kind]) => [name, columnType(kind)] as const)
  // A resource with links reads all fields, because links may be built from any of them.
  const isPartial = declaration.listed !== undefined && declaration.links === undefined
  const listed = isPartial ? [...new Set(['id', 'revision', ...(declaration.listed ?? []), ...sorts])] : undefined
  return {
    ...options,
    ...{ declaration, prefix, fieldNames },
    rows: rowsOf(options.db, {
      ...{ table, fields: fieldNames, folded, blank, listed, subscribed: hasSubscriber(declaration) },
      codecs: codecsOf(declaration),
    }),
    normalizers: types.flatMap(([name, { normalize }]) => (normalize ? [[name, normalize]] : [])),
    representations: representationCache(options.db),
    complete: defaultFiller(body),
    check: inputValidator(input, 'body'),
    readDecimals: decimalReader(input),
    serialize: serializer(declaration, prefix),
    announce: eventPublisher(options, declaration),
  }
}

const idParams = Type.Object({
  id: Type.Integer({ minimum: 1, description: 'Assigned by the service', examples: [1] }),
})
const fieldsQuery = Type.Object({
  fields: Fields,
})

/** What the routes of a resource have in common: path, scope, cacheability, operation id. */
function route(
  { declaration, publicRead, guard }: Served,
  operation: CollectionOperation,
  method: string,
  title: string,
) {
  const { path, name, noun } = declaration
  const isRead = operation === 'list' || operation === 'read'
  const isSingle = operation !== 'list' && operation !== 'create'
  const isPublic = isRead && declaration.publicRead
  const scope = isPublic ? (publicRead ? 'public' : 'any') : `${name}:${isRead ? 'read' : 'write'}`
  return {
    method,
    url: isSingle ? `${path}/:id` : path,
    config: {
      scope,
      cache: isRead ? (isPublic && publicRead ? 'public' : 'private') : 'none',
      fields: isRead,
      problems: isRead ? [] : writeProblems(declaration, operation, guard),
    },
    about: {
      tags: [name],
      operationId:
        operationVerb(operation) + (operation === 'list' ? name.split('-').map(capital).join('') : capital(noun)),
      summary: title,
      ...(isSingle && { params: idParams }),
    },
  } as const
}

const operationVerb = (operation: CollectionOperation) => (operation === 'remove' ? 'delete' : operation)

/** The problems of a write besides those of every route. */
function writeProblems(
  { unique }: Declaration,
  operation: CollectionOperation,
  guard: Guard | undefined,
): readonly ProblemCode[] {
  if (operation === 'remove') return guard?.removalProblems ?? []
  return unique.length > 0 ? ['DUPLICATE_RESOURCE'] : []
}

const routes: Record<CollectionOperation, (served: Served) => RouteOptions> = {
  list: (served) => {
    const { declaration, prefix, rows } = served
    const { about, ...common } = route(served, 'list', 'GET', `List ${declaration.name.replaceAll('-', ' ')}`)
    const rules = { ...declaration, path: prefix + declaration.path }
    const response = { 200: Type.Array(representation(declaration, declaration.listed)) }
    const handler = lister(rows, rules, listItemSerializer(served))
    return { ...common, schema: { ...about, querystring: listQuerySchema(rules), response }, handler }
  },
  read: (served) => {
    const { about, ...common } = route(served, 'read', 'GET', `Read a ${served.declaration.noun}`)
    const response = { 200: representation(served.declaration) }
    const schema = { ...about, querystring: fieldsQuery, response }
    return { ...common, schema, handler: (request, reply) => read(served, request as RowRequest, reply) }
  },
  create: (served) => {
    const { about, ...common } = route(served, 'create', 'POST', `Create a ${served.declaration.noun}`)
    const schema = { ...about, body: served.declaration.input, response: { 201: representation(served.declaration) } }
    const config = { ...common.config, minimal: true }
    return { ...common, config, schema, handler: (request, reply) => create(served, request as BodyRequest, reply) }
  },
  replace: (served) => changes(served, 'replace', 'PUT', 'Replace', served.declaration.input),
  patch: (served) => changes(served, 'patch', 'PATCH', 'Change', Type.Object({})),
  remove: (served) => {
    const { about, ...common } = route(served, 'remove', 'DELETE', `Delete a ${served.declaration.noun}`)
    const handler = async (request: FastifyRequest, reply: FastifyReply) => {
      await removeRow(served, request as RowRequest)
      return reply.code(204).send()
    }
    return { ...common, schema: about, handler }
  },
}

/** Responds synchronously if the engine reads synchronously, so that the hottest path awaits no promise. */
function read(served: Served, request: RowRequest, reply: FastifyReply): Promise<FastifyReply> | undefined {
  const { id } = request.params
  const isUnconditional = isUnconditionalRead(request)
  const cached = isUnconditional ? served.representations.get(id) : undefined
  if (cached) {
    sendRepresentation(request, reply, cached)
    return undefined
  }
  const respond = (row: Row | undefined) => {
    if (row === undefined) throw notFound(served, id)
    const resource = served.serialize(row, request)
    if (!isUnconditional) return reply.send(resource)
    const built = representationOf(resource, (value) => reply.serialize(value) as string)
    // If fields may be hidden, the representation depends on the caller and is not cached.
    if (!served.declaration.hides) served.representations.set(id, built)
    return sendRepresentation(request, reply, built)
  }
  const found = served.rows.find(id)
  if (found instanceof Promise) return found.then(respond)
  respond(found)
  return undefined
}

const write: Record<'replace' | 'patch', (served: Served, request: BodyRequest) => Promise<Row>> = { replace, patch }

/** The route of PUT or PATCH: it responds with the changed resource and its new validators. */
function changes(served: Served, operation: keyof typeof write, method: string, verb: string, body: TSchema) {
  const { about, ...common } = route(served, operation, method, `${verb} a ${served.declaration.noun}`)
  return {
    ...common,
    config: {
      ...common.config,
      minimal: true,
      ...(operation === 'patch' ? { accepts: [mergePatch], members: served.fieldNames } : { accepts: [] }),
    },
    schema: { ...about, body, response: { 200: representation(served.declaration) } },
    handler: async (request: FastifyRequest) =>
      served.serialize(await write[operation](served, request as BodyRequest), request),
  }
}
