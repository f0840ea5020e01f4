import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../../http/policies/authenticate.ts'
import { isNarrowed, parseFields, pick } from '../../http/policies/partial-response.ts'
import type { Served } from '../declaration.ts'
import { type RowRequest, readableRow } from '../writes/change.ts'

/** Returns the `expand` parameter of a request, unless it is absent or empty. */
export const expandOf = (request: FastifyRequest): string | undefined =>
  (request.query as { expand?: string }).expand || undefined

/**
 * Responds with a row and the related rows that `expand` names. The response has a weak ETag computed from its content
 * instead of a revision, because related rows can change while the row's revision stays the same.
 */
export async function readExpanded(served: Served, request: RowRequest, reply: FastifyReply, text: string) {
  const expand = served.expand(text, request, reply)
  const access = await served.accessOf?.(callerOf(request))
  const row = await readableRow(served, request.params.id, access)
  const { revision: _, sharesSecond: __, view: ___, _variant: ____, ...shown } = served.serialize(row, request)
  const membersOf = await expand.membersOf([row], await expand.readable())
  const query = request.query as { fields?: string }
  const whole = { ...shown, ...membersOf(row) }
  const sent = pick(whole, isNarrowed(request) ? parseFields(query.fields) : null)
  return reply.header('content-type', 'application/json; charset=utf-8').send(JSON.stringify(sent))
}
