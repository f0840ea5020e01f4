import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { callerOf } from '../../http/policies/authenticate.ts'
import { parseFields, pick } from '../../http/policies/partial-response.ts'
import type { Filter } from '../../storage/rows/page-query.ts'
import type { Row } from '../../storage/rows/rows.ts'
import type { Declaration, Served } from '../declaration.ts'
import type { ListRules, Query } from '../list-parameters.ts'
import { type RowRequest, readableRow } from '../writes/change.ts'
import { listJudge, rowStreamJudge } from './judge.ts'
import { sendStream, wantsStream } from './stream.ts'
import type { Facts } from './subscribers.ts'

/** Returns a route's `config` for event streams; empty if the service does not serve event streams. */
export const streamConfig = ({ feed }: Pick<Served, 'feed'>) =>
  feed ? ({ streams: true, produces: ['application/json', 'text/event-stream'] } as const) : {}

type Handler = (request: FastifyRequest, reply: FastifyReply) => unknown

export interface ListStream {
  rules: ListRules
  serialize: (row: Row) => object
  /** Returns the filters of a nested list. */
  within?: (request: FastifyRequest) => { filters: readonly Filter[] }
  /** Throws if the caller may no longer read a nested list. */
  check?: (request: FastifyRequest) => Promise<void>
}

/** Returns the handler of a list. A request that prefers an event stream receives a stream of the list's changes. */
export function listOrStream(served: Served, list: ListStream, handler: Handler): RouteHandlerMethod {
  const { feed, declaration, prefix } = served
  if (feed === undefined) return handler as RouteHandlerMethod
  const { rules, serialize, within, check } = list
  const toRow = rowsOf(declaration)
  return (request, reply) => {
    if (!wantsStream(request)) return handler(request, reply)
    const query = request.query as Query
    const judge = listJudge(served, rules, query, within?.(request).filters ?? [])
    const tree = query.fields ? parseFields(query.fields) : null
    const source = {
      noun: declaration.noun,
      judge: async (now: FastifyRequest) => {
        await check?.(now)
        return judge(now)
      },
      represent: (row: Facts) => JSON.stringify(pick(serialize(toRow(row)), tree)),
      shape: `${prefix}${declaration.path} ${query.fields ?? ''}`,
      isSingle: false,
    }
    return sendStream(feed, source, request, reply)
  }
}

/**
 * Returns the handler of a single row. A request that prefers an event stream receives a stream of the row's changes.
 */
export function rowOrStream(served: Served, handler: Handler): RouteHandlerMethod {
  const { feed, declaration } = served
  if (feed === undefined) return handler as RouteHandlerMethod
  const toRow = rowsOf(declaration)
  const stream = async (request: RowRequest, reply: FastifyReply) => {
    const { id } = request.params
    const { fields, expand } = request.query as Query
    const judge = rowStreamJudge(served, id, expand)
    const tree = fields ? parseFields(fields) : null
    await readableRow(served, id, await served.accessOf?.(callerOf(request)))
    const represent = (row: Facts) => {
      const text = reply.serialize(served.serialize(toRow(row), request)) as string
      return tree ? JSON.stringify(pick(JSON.parse(text), tree)) : text
    }
    return sendStream(feed, { noun: declaration.noun, judge, represent, shape: null, isSingle: true }, request, reply)
  }
  return (request, reply) => (wantsStream(request) ? stream(request as RowRequest, reply) : handler(request, reply))
}

/**
 * Returns the function that converts a logged row to a row of the resource, without the related rows for access rules.
 */
function rowsOf({ view, access }: Declaration): (facts: Facts) => Row {
  const relations = Object.keys(access?.relations ?? {})
  return (facts) => {
    const own = { ...facts } as Row
    for (const name of relations) delete own[name]
    return view ? view.toMembers(own) : own
  }
}
