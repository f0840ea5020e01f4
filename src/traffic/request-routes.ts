import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from 'typebox'
import { addLink } from '../http/headers/vary.ts'
import { CursorText, Fields, keysetPage, linkHeader, PageLimit, type PageQuery } from '../http/pagination.ts'
import { partialSchema } from '../http/partial-schema.ts'
import { malformedQuery, Problem } from '../http/problems/problem.ts'
import { requesterOf } from '../http/requester.ts'
import type { Database } from '../storage/database.ts'
import type { ScanRequester } from '../storage/scans/scan.ts'
import type { RequestLogTable } from '../storage/tables/observed.ts'
import { keptHours, loggedAt } from './request-log.ts'
import { namesOf } from './view.ts'

const requestId = '5f0c2c1e-9f0e-4a53-8d0c-3f3f6e6e2b11'

const LoggedRequest = partialSchema(
  Type.Object({
    requestId: Type.String({ examples: [requestId] }),
    at: Type.String({ format: 'date-time', description: 'When the response was sent' }),
    node: Type.String({
      description: 'The id of the process that responded',
      examples: ['nod_3q2-7wAAAAAAAAAAAAAAAA'],
    }),
    method: Type.String({ examples: ['GET'] }),
    path: Type.String({ description: 'The path without its query, at most 500 characters', examples: ['/users/7'] }),
    status: Type.Integer({ examples: [404] }),
    durationMs: Type.Number({ description: 'From the header of the request to the response', examples: [1.8] }),
    clientId: Type.Optional(Type.String({ description: 'The client of the access token', examples: ['partner'] })),
    clientName: Type.Optional(Type.String({ examples: ['Partner'] })),
    subject: Type.Optional(
      Type.String({ description: 'The subject of the access token: a user id, or the client id', examples: ['42'] }),
    ),
    userName: Type.Optional(Type.String({ examples: ['Ada'] })),
    address: Type.Optional(Type.String({ description: 'The client address', examples: ['203.0.113.7'] })),
    errorCode: Type.Optional(Type.String({ description: 'The code of an error', examples: ['RESOURCE_NOT_FOUND'] })),
  }),
)

const equal = (what: string, example: string) =>
  Type.Optional(Type.String({ maxLength: 300, description: `Only requests with this ${what}`, examples: [example] }))

const RequestQuery = Type.Object({
  ...{ limit: PageLimit, cursor: CursorText, fields: Fields },
  clientId: equal('client', 'partner'),
  subject: equal('subject', '42'),
  address: equal('address', '203.0.113.7'),
  status: Type.Optional(
    Type.String({
      maxLength: 20,
      description: 'Only responses with this status or class of status',
      examples: ['5xx'],
    }),
  ),
})
type Filter = Static<typeof RequestQuery>

/** Returns the first and the last status of a filter such as `429` or `4xx`. Throws INVALID_INPUT. */
function statusRange(text: string): [from: number, to: number] {
  if (/^[1-5]\d\d$/.test(text)) return [Number(text), Number(text)]
  if (/^[1-5]xx$/.test(text)) return [Number(text[0]) * 100, Number(text[0]) * 100 + 99]
  throw malformedQuery('status', 'must be a status such as 429, or a class of status such as 4xx')
}

/**
 * Reads one page of the stored requests, newest first. An index covers the list of all requests and the list of a
 * client's requests; other filters need a scan.
 */
function requestPage({ read, scan, engine }: Database, query: PageQuery & Filter, requester: ScanRequester) {
  const { clientId, subject, address, status } = query
  const equal = Object.entries({ clientId, subject, address }).filter(([, value]) => value !== undefined)
  const [from, to] = status === undefined ? [] : statusRange(status)
  const isBounded = subject === undefined && address === undefined && status === undefined
  return keysetPage<RequestLogTable>(query, 1, {
    of: ['requests', equal, from, to],
    keyOf: ({ id }) => [id],
    rowsAfter: (after, backwards, count) => {
      const [order, beyond] = backwards ? (['asc', '>'] as const) : (['desc', '<'] as const)
      const page = read
        .selectFrom('requestLog')
        .selectAll()
        .where((row) => row.and(Object.fromEntries(equal)))
        .$if(from !== undefined, (rows) =>
          rows.where('status', '>=', from as number).where('status', '<=', to as number),
        )
        .$if(after !== null, (rows) => rows.where('id', beyond, String(after?.[0])))
        .orderBy('id', order)
        .limit(count)
      return isBounded ? page.execute() : scan(page.where(engine.interruptible('request_log')), requester)
    },
  })
}

/** Adds the names of clients and users; omits members without a value. */
async function viewsOf(db: Database, rows: readonly RequestLogTable[]) {
  const idsOf = (name: 'clientId' | 'subject') => [...new Set(rows.map((row) => row[name]).filter((id) => id !== null))]
  const [clients, users] = await Promise.all([
    namesOf(db, 'client', idsOf('clientId')),
    namesOf(db, 'subject', idsOf('subject')),
  ])
  return rows.map(({ id, ms, ...row }) => {
    const names = { clientName: clients.get(row.clientId ?? ''), userName: users.get(row.subject ?? '') }
    const members = Object.entries({ ...row, ...names, at: loggedAt(id), durationMs: ms })
    return Object.fromEntries(members.filter(([, value]) => value !== null && value !== undefined))
  })
}

export interface RequestRoutesOptions {
  db: Database
  /** Maximum number of responses that each node stores per second. */
  requestLogRate: number
}

const path = '/api/requests'
const config = { scope: 'admin', cache: 'private', fields: true } as const
const urn = /^urn:request:/i

/** Serves GET /api/requests, the stored requests of the last day, and GET /api/requests/{requestId}, one of them. */
export const requestRoutes: FastifyPluginAsyncTypebox<RequestRoutesOptions> = async (app, options) => {
  const { db, requestLogRate: rate } = options
  const ofList = {
    tags: ['administration'],
    operationId: 'listRequests',
    summary: 'List recent requests, newest first',
  }
  const listSchema = { ...ofList, querystring: RequestQuery, response: { 200: Type.Array(LoggedRequest) } }
  app.get(path, { config, schema: listSchema }, async (request, reply) => {
    const { rows, cursors } = await requestPage(db, request.query, requesterOf(request, reply))
    addLink(reply, linkHeader(app.prefix + path, request.query, cursors))
    return (await viewsOf(db, rows)) as never
  })
  const ofOne = { tags: ['administration'], operationId: 'readRequest', summary: 'Find a recent request by its id' }
  const params = Type.Object({
    requestId: Type.String({
      description: 'The id from X-Request-Id or an error, or its URN: the `instance` of a problem',
      examples: [requestId],
    }),
  })
  const querystring = Type.Object({ fields: Fields })
  const schema = { ...ofOne, params, querystring, response: { 200: LoggedRequest } }
  app.get(`${path}/:requestId`, { config, schema }, async (request) => {
    const rows = await db.read
      .selectFrom('requestLog')
      .selectAll()
      .where('requestId', '=', request.params.requestId.replace(urn, ''))
      // If several requests have the same id, such as retries, return the latest.
      .orderBy('id', 'desc')
      .limit(1)
      .execute()
    const [found] = await viewsOf(db, rows)
    if (found === undefined) throw new Problem('RESOURCE_NOT_FOUND', absence(rate))
    return found as never
  })
}

/** Returns the error message for a request that is not stored. */
const absence = (rate: number): string =>
  rate === 0
    ? 'Requests are not stored, because PLINTH_REQUEST_LOG_RATE is 0'
    : `No request with this id is stored. Requests are kept for ${keptHours} hours; each node stores at most ${rate} a second`
