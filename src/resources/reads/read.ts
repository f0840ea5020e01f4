import type { FastifyReply } from 'fastify'
import type { CachedResponses } from '../../http/fast-path/cached-response.ts'
import { isUnconditionalRead, representationOf, sendRepresentation, sendWhole } from '../../http/fast-read.ts'
import { callerOf } from '../../http/policies/authenticate.ts'
import type { Versioned } from '../../http/policies/conditional.ts'
import type { Row } from '../../storage/rows/rows.ts'
import type { Served } from '../declaration.ts'
import { idTypes } from '../id-types.ts'
import { expandOf, readExpanded } from '../relations/read-expanded.ts'
import { notFound, type RowRequest, readableRow, type WrittenRow } from '../writes/change.ts'

/** Returns true if representations may depend on the time. They are then not cached. */
const isTimed = ({ declaration: { computed } }: Served) =>
  computed.usesToday || Object.keys(computed.derived).length > 0

/** Returns the route option `cached`, unless representations depend on the caller or cannot be cached. */
export function cachedRows({ declaration, accessOf, rows, representations }: Served): { cached?: CachedResponses } {
  if (accessOf || declaration.hides || rows.changes === null) return {}
  const { fromPath } = idTypes[declaration.ids]
  const find = (target: string, from: number) => {
    const id = fromPath(target, from)
    return id === undefined ? undefined : representations.get(id)
  }
  return { cached: { by: 'segment', find } }
}

/**
 * Reads a row. Responds synchronously if the engine reads synchronously, so that frequent requests await no promise.
 */
export function read(served: Served, request: RowRequest, reply: FastifyReply): Promise<FastifyReply> | undefined {
  const { id } = request.params
  const expanded = served.relations.length > 0 ? expandOf(request) : undefined
  if (expanded !== undefined) return readExpanded(served, request, reply, expanded)
  const isUnconditional = isUnconditionalRead(request) && !isTimed(served)
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
    served.representations.set(id, built)
    return sendRepresentation(request, reply, built)
  }
  const found = served.rows.find(id)
  if (found instanceof Promise) return found.then(respond)
  respond(found)
  return undefined
}

/**
 * Responds to the change of a row with its new representation. If the row is cached, caches this representation, so
 * that the next read need not read the row.
 */
export function sendChanged(
  served: Served,
  request: RowRequest,
  reply: FastifyReply,
  { row, asOf }: WrittenRow,
): Versioned | FastifyReply {
  const resource = served.serialize(row, request)
  // The policies `prefer` and `conditional` handle the other responses.
  if (isTimed(served) || request.preferences?.return) return resource
  const built = representationOf(resource, (value) => reply.serialize(value) as string)
  if (asOf !== undefined) served.representations.replace(request.params.id, built, asOf)
  return sendWhole(reply, built)
}

/** Reads a row under access rules. Throws RESOURCE_NOT_FOUND if it does not exist or the caller may not read it. */
export async function readAllowed(
  served: Served,
  request: RowRequest,
  reply: FastifyReply,
): Promise<Versioned | FastifyReply> {
  const { id } = request.params
  const expanded = served.relations.length > 0 ? expandOf(request) : undefined
  if (expanded !== undefined) return readExpanded(served, request, reply, expanded)
  const access = await served.accessOf?.(callerOf(request))
  return served.serialize(await readableRow(served, id, access), request)
}
