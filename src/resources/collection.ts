import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type TObject, type TSchema, Type } from 'typebox'
import { answerPlainRead, isUnconditionalRead, representationOf } from '../http/fast-read.ts'
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
import { completerOf } from './defaults.ts'
import { defineResource } from './define.ts'
import { lister } from './list.ts'
import { capital, listQuerySchema } from './list-query.ts'
import { listItemSerializer, representation, serializer } from './representation.ts'
import { representationCache } from './representation-cache.ts'
import { create, notFound, patch, type RowParams, removeRow, replace, type WriteOutcome } from './writes.ts'

/**
 * Serves a declaration over HTTP (list, create, read, replace, patch, remove), with its events, its report and its table.
 * Throws `DefinitionError`, which lists every error in the declaration.
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
  // With links all fields are read, because links may be made of any field.
  const isPart = declaration.listed !== undefined && declaration.links === undefined
  const listed = isPart ? [...new Set(['id', 'revision', ...(declaration.listed ?? []), ...sorts])] : undefined
  return {
    ...options,
    ...{ declaration, prefix, fieldNames },
    rows: rowsOf(options.db, {
      ...{ table, fields: fieldNames, folded, blank, listed, heard: hasSubscriber(declaration) },
      codecs: Object.fromEntries(types.flatMap(([name, { codec }]) => (codec ? [[name, codec]] : []))),
    }),
    normalizers: types.flatMap(([name, { normalize }]) => (normalize ? [[name, normalize]] : [])),
    representations: representationCache(options.db),
    complete: completerOf(body),
    check: inputValidator(input, 'body'),
    show: serializer(declaration, prefix),
    announce: eventPublisher(options, declaration),
  }
}

const idParams = Type.Object({ id: Type.Integer({ minimum: 1, description: 'Given by the service', examples: [1] }) })
const fieldsQuery = Type.Object({
  fields: Fields,
})

/** The common part of a resource's routes: path, scope, cacheability, operation id. */
function route(
  { declaration, publicRead, guard }: Served,
  operation: CollectionOperation,
  method: string,
  title: string,
) {
  const { path, name, noun } = declaration
  const reads = operation === 'list' || operation === 'read'
  const single = operation !== 'list' && operation !== 'create'
  const isPublic = reads && declaration.publicRead
  const scope = isPublic ? (publicRead ? 'public' : 'any') : `${name}:${reads ? 'read' : 'write'}`
  return {
    method,
    url: single ? `${path}/:id` : path,
    config: {
      scope,
      cache: reads ? (isPublic && publicRead ? 'public' : 'private') : 'none',
      fields: reads,
      problems: reads ? [] : conflictsOf(declaration, operation, guard),
    },
    about: {
      tags: [name],
      operationId: verbOf(operation) + (operation === 'list' ? name.split('-').map(capital).join('') : capital(noun)),
      summary: title,
      ...(single && { params: idParams }),
    },
  } as const
}

const verbOf = (operation: CollectionOperation) => (operation === 'remove' ? 'delete' : operation)

/** Problems of a change, in addition to the common ones. */
function conflictsOf(
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
    return { ...common, schema, handler: (request, reply) => read(served, request as RowParams, reply) }
  },
  create: (served) => {
    const { about, ...common } = route(served, 'create', 'POST', `Create a ${served.declaration.noun}`)
    const schema = { ...about, body: served.declaration.input, response: { 201: representation(served.declaration) } }
    const config = { ...common.config, minimal: true }
    return { ...common, config, schema, handler: (request, reply) => create(served, request as WriteOutcome, reply) }
  },
  replace: (served) => changes(served, 'replace', 'PUT', 'Replace', served.declaration.input),
  patch: (served) => changes(served, 'patch', 'PATCH', 'Change', Type.Object({})),
  remove: (served) => {
    const { about, ...common } = route(served, 'remove', 'DELETE', `Delete a ${served.declaration.noun}`)
    const handler = async (request: FastifyRequest, reply: FastifyReply) => {
      await removeRow(served, request as RowParams)
      return reply.code(204).send()
    }
    return { ...common, schema: about, handler }
  },
}

/** Responds synchronously where the engine reads synchronously: the hottest path awaits no promise. */
function read(served: Served, request: RowParams, reply: FastifyReply): Promise<FastifyReply> | undefined {
  const { id } = request.params
  const plain = isUnconditionalRead(request)
  const known = plain ? served.representations.of(id) : undefined
  if (known) {
    answerPlainRead(request, reply, known)
    return undefined
  }
  const answer = (row: Row | undefined) => {
    if (row === undefined) throw notFound(served, id)
    const shown = served.show(row, request)
    if (!plain) return reply.send(shown)
    const made = representationOf(shown, (resource) => reply.serialize(resource) as string)
    // With hidden fields the representation depends on the caller, so it is not cached.
    if (!served.declaration.hides) served.representations.keep(id, made)
    return answerPlainRead(request, reply, made)
  }
  const found = served.rows.find(id)
  if (found instanceof Promise) return found.then(answer)
  answer(found)
  return undefined
}

const write: Record<'replace' | 'patch', (served: Served, request: WriteOutcome) => Promise<Row>> = { replace, patch }

/** PUT and PATCH: respond with the changed resource and its new validators. */
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
      served.show(await write[operation](served, request as WriteOutcome), request),
  }
}
