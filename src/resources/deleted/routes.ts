import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type TSchema, Type } from 'typebox'
import { addLink } from '../../http/headers/vary.ts'
import { CursorText, Fields, keysetPage, linkHeader, PageLimit, type PageQuery } from '../../http/pagination.ts'
import { partialSchema } from '../../http/partial-schema.ts'
import { malformedQuery, type ProblemCode } from '../../http/problems/problem.ts'
import { requesterOf } from '../../http/requester.ts'
import { capital } from '../../openapi/schemas.ts'
import { readDeleted } from '../../storage/deleted-rows.ts'
import type { DeletedRow } from '../../storage/tables/resources.ts'
import type { Served } from '../declaration.ts'
import { idParams } from '../id-types.ts'
import { requireReadable } from '../relations/readable.ts'
import { listItemSerializer, representation } from '../representation.ts'
import type { RowRequest } from '../writes/change.ts'
import { readableReplay } from '../writes/writes.ts'
import { keptRowReader } from './kept-rows.ts'
import { eraser, keptSelector, restorer } from './restore.ts'

/** Returns the routes of a collection's deleted rows; none if their deletion is final. */
export function deletedRoutes(served: Served): RouteOptions[] {
  const { name, keepDeletedMs } = served.declaration
  if (keepDeletedMs === undefined) return []
  const path = `/api/deleted/${name}`
  return [listRoute(served, path), restoreRoute(served, path), eraseRoute(served, path)]
}

function listRoute(served: Served, path: string): RouteOptions {
  const { declaration, db, prefix } = served
  const { name, readScope } = declaration
  const plural = name.replaceAll('-', ' ')
  const [selectionFor, read] = [keptSelector(served), keptRowReader(declaration)]
  // A deleted resource has no URL, so its representation has no links.
  const shown = { ...declaration, links: undefined }
  const itemOf = listItemSerializer({ ...served, declaration: shown as never })
  const handler = async (request: FastifyRequest, reply: FastifyReply) => {
    requireReadable(declaration, request)
    const query = request.query as PageQuery
    const kept = await selectionFor(request)
    const requester = requesterOf(request, reply)
    const { rows, cursors } = await keysetPage<DeletedRow>(query, 2, {
      of: ['deleted', declaration.path],
      keyOf: ({ deletedAt, rowId }) => [deletedAt, rowId],
      rowsAfter: (after, backwards, count) =>
        readDeleted(db, kept, { after: after && positionOf(after), backwards, count, requester }),
    })
    addLink(reply, linkHeader(prefix + path, query, cursors))
    return rows.map(({ content, deletedAt, deletedBy, expiresAt }) => {
      const row = read(content)
      return { id: row.id, deletedAt, deletedBy, expiresAt, resource: itemOf(row) }
    })
  }
  const about = {
    tags: [name],
    operationId: `listDeleted${name.split('-').map(capital).join('')}`,
    summary: `List deleted ${plural} that can be restored, newest first`,
    querystring: Type.Object({ limit: PageLimit, cursor: CursorText, fields: Fields }),
    response: { 200: Type.Array(itemSchema(served, shown as never)) },
  }
  const problems: ProblemCode[] = readScope === null ? [] : ['ACCESS_DENIED']
  const config = { scope: `${name}:write`, cache: 'private', fields: true, problems } as const
  return { method: 'GET', url: path, config, schema: about, handler }
}

function positionOf([deletedAt, rowId]: (string | number)[]) {
  if (typeof deletedAt !== 'string' || typeof rowId !== 'string')
    throw malformedQuery('cursor', 'is not a valid cursor')
  return { deletedAt, rowId }
}

function itemSchema({ declaration: { noun, ids } }: Served, shown: Served['declaration']): TSchema {
  const { whole } = representation(shown, shown.listed) as unknown as { whole: TSchema }
  return partialSchema(
    Type.Object({
      id: idParams(ids).properties.id as TSchema,
      deletedAt: Type.String({ format: 'date-time' }),
      deletedBy: Type.String({
        description: 'Who deleted it: `user:7` or `client:crm`',
        examples: ['user:7'],
      }),
      expiresAt: Type.String({ format: 'date-time', description: 'Until when it can be restored' }),
      resource: { ...whole, description: `The ${noun} as lists showed it` } as TSchema,
    }),
  )
}

/** Returns the options that the routes of a single deleted row have in common. */
function single({ declaration }: Served, operation: 'restore' | 'erase', summary: string) {
  const { name, noun, ids } = declaration
  return { tags: [name], operationId: operation + capital(noun), summary, params: idParams(ids) }
}

function restoreRoute(served: Served, path: string): RouteOptions {
  const { declaration, accessOf, relations, lock } = served
  const { name, noun, access } = declaration
  const problems: ProblemCode[] = [
    'RESOURCE_NOT_FOUND',
    'VALIDATION_ERROR',
    'DUPLICATE_RESOURCE',
    ...(access ? ['PERMISSION_DENIED' as const] : []),
    ...(lock?.placed ? ['RESOURCE_LOCKED' as const] : []),
  ]
  const restore = restorer(served)
  const response = { 201: representation(declaration, undefined, relations) }
  const schema = { ...single(served, 'restore', `Restore a deleted ${noun}`), response }
  const config = {
    ...({ scope: `${name}:write`, cache: 'none', minimal: true, problems } as const),
    ...(accessOf && { checkReplay: readableReplay(served) }),
  }
  return {
    ...{ method: 'POST', url: `${path}/:id/restore`, config, schema },
    handler: (request, reply) => restore(request as RowRequest, reply),
  }
}

function eraseRoute(served: Served, path: string): RouteOptions {
  const { name, noun } = served.declaration
  const erase = eraser(served)
  return {
    ...{ method: 'DELETE', url: `${path}/:id`, config: { scope: `${name}:write`, cache: 'none' } as const },
    schema: single(served, 'erase', `Delete a ${noun} for good`),
    handler: (request, reply) => erase(request as RowRequest, reply),
  }
}
