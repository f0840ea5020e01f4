import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type TSchema, Type } from 'typebox'
import { type Row, rowsOf } from '../db/rows.ts'
import { inputValidator, mergePatch } from '../http/bodies.ts'
import { answersUnchanged } from '../http/conditional.ts'
import type { Collection, CollectionOptions, Declaration, Operation, Served } from './declaration.ts'
import { lister } from './list.ts'
import { capital, type ListRules, listQuerySchema } from './list-query.ts'
import { listShow, representation, shower } from './show.ts'
import { type ById, create, notFound, patch, remove, replace, type Written } from './writes.ts'

/** Declaration → list, create, read, replace, patch and remove over HTTP. */
export function collection(declaration: Declaration): Collection {
  return {
    declaration,
    plugin: async (app, options) => {
      const served = serve(declaration, options, app.prefix)
      for (const operation of declaration.operations) app.route(routes[operation](served))
    },
  }
}

function serve(declaration: Declaration, options: CollectionOptions, prefix: string): Served {
  const fieldNames = Object.keys(declaration.body.properties)
  const folded = [...new Set([...declaration.search, ...(declaration.folded ?? [])])]
  const { table, sorts } = declaration
  const listed = declaration.listed && [...new Set(['id', 'revision', ...declaration.listed, ...sorts])]
  const rows = rowsOf(options.db, { table, fields: fieldNames, folded, listed })
  const check = inputValidator(declaration.body, 'body')
  return { ...options, declaration, rows, prefix, fieldNames, check, show: shower(declaration, prefix) }
}

const idParams = Type.Object({
  id: Type.Integer({ minimum: 1, maximum: 2_147_483_647, description: 'Given by the service' }),
})
const fieldsQuery = Type.Object({
  fields: Type.Optional(Type.String({ description: 'Names of the fields to return' })),
})

/** What every route of a resource has in common: its path, who may call, who may keep the answer, its name. */
function route({ declaration, publicRead }: Served, operation: Operation, method: string, title: string) {
  const { path, noun } = declaration
  const reads = operation === 'list' || operation === 'read'
  const single = operation !== 'list' && operation !== 'create'
  const isPublic = reads && declaration.publicRead === true
  const scope = isPublic ? (publicRead ? 'public' : 'any') : `${path.slice(1)}:${reads ? 'read' : 'write'}`
  return {
    method,
    url: single ? `${path}/:id` : path,
    config: {
      scope,
      cache: reads ? (isPublic && publicRead ? 'public' : 'private') : 'none',
      fields: reads,
      problems: declaration.unique && !reads && operation !== 'remove' ? ['DUPLICATE_RESOURCE' as const] : [],
    },
    about: {
      tags: [path.slice(1)],
      operationId: operation + capital(operation === 'list' ? path.slice(1) : noun),
      summary: title,
      ...(single && { params: idParams }),
    },
  } as const
}

const routes: Record<Operation, (served: Served) => RouteOptions> = {
  list: (served) => {
    const { declaration, prefix, rows } = served
    const { about, ...common } = route(served, 'list', 'GET', `List ${declaration.path.slice(1)}`)
    const rules: ListRules = { ...declaration, path: prefix + declaration.path }
    const response = { 200: Type.Array(representation(declaration, declaration.listed)) }
    const handler = lister(rows, rules, listShow(served))
    return { ...common, schema: { ...about, querystring: listQuerySchema(rules), response }, handler }
  },
  read: (served) => {
    const { about, ...common } = route(served, 'read', 'GET', `Read a ${served.declaration.noun}`)
    const response = { 200: representation(served.declaration) }
    const schema = { ...about, querystring: fieldsQuery, response }
    return { ...common, schema, handler: (request, reply) => read(served, request as ById, reply) }
  },
  create: (served) => {
    const { about, ...common } = route(served, 'create', 'POST', `Create a ${served.declaration.noun}`)
    const schema = { ...about, body: served.declaration.body, response: { 201: representation(served.declaration) } }
    return { ...common, schema, handler: (request, reply) => create(served, request as Written, reply) }
  },
  replace: (served) => changes(served, 'replace', 'PUT', 'Replace', served.declaration.body),
  patch: (served) => changes(served, 'patch', 'PATCH', 'Change', Type.Object({})),
  remove: (served) => {
    const { about, ...common } = route(served, 'remove', 'DELETE', `Delete a ${served.declaration.noun}`)
    const handler = async (request: FastifyRequest, reply: FastifyReply) => {
      await remove(served, request as ById)
      return reply.code(204).send()
    }
    return { ...common, schema: about, handler }
  },
}

/** Answers in the same turn where the engine does: the hottest path waits for no promise. */
function read(served: Served, request: ById, reply: FastifyReply): Promise<object> | undefined {
  const { id } = request.params
  const answer = (row: Row | undefined) => {
    if (row === undefined) throw notFound(served, id)
    const shown = served.show(row, request)
    reply.send(answersUnchanged(request, reply, shown) ? undefined : shown)
    return reply
  }
  const found = served.rows.find(id)
  if (found instanceof Promise) return found.then(answer)
  answer(found)
  return undefined
}

const write: Record<'replace' | 'patch', (served: Served, request: Written) => Promise<Row>> = { replace, patch }

/** PUT and PATCH: the changed resource with its new validators. */
function changes(served: Served, operation: keyof typeof write, method: string, verb: string, body: TSchema) {
  const { about, ...common } = route(served, operation, method, `${verb} a ${served.declaration.noun}`)
  return {
    ...common,
    config: { ...common.config, accepts: operation === 'patch' ? [mergePatch] : [] },
    schema: { ...about, body, response: { 200: representation(served.declaration) } },
    handler: async (request: FastifyRequest) =>
      served.show(await write[operation](served, request as Written), request),
  }
}
