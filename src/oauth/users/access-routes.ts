import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { type AuditEntry, auditRecorder } from '../../audit/chain.ts'
import { partialSchema } from '../../http/partial-schema.ts'
import { auditActor } from '../../http/policies/authenticate.ts'
import { checkPostPreconditions } from '../../http/policies/conditional.ts'
import type { Queryable } from '../../storage/database.ts'
import { InstantOrNull, Narrowed } from '../admin-schemas.ts'
import type { AdminOptions } from '../clients/routes.ts'
import { OfUser } from './account-routes.ts'
import { endClientAccess, endSession, endSessions, requireUser, userGrants, userSessions } from './user-access.ts'

type Plugin = FastifyPluginAsyncTypebox<AdminOptions>

const path = '/api/users/:id'
const tags = ['administration']
const reads = { scope: 'admin', cache: 'none', fields: true } as const
const removals = { scope: 'admin', cache: 'none', revised: false, problems: ['PRECONDITION_FAILED'] } as const

const Instant = (description: string) => Type.String({ format: 'date-time', description })
const clientName = Type.Unsafe<string | null>({
  type: ['string', 'null'],
  description: 'Null if the client does not exist any more',
  examples: ['Web shop'],
})
const clientId = Type.String({ examples: ['shop'] })
const scopes = (description: string) => Type.Array(Type.String(), { description, examples: [['openid', 'users:read']] })

const Session = partialSchema(
  Type.Object({
    id: Type.String({ description: 'Identifies the session; not a credential', examples: ['3Dq1gT8mUqkVhXWtYvN2s'] }),
    startedAt: Instant('When the user logged in'),
    lastUsedAt: Instant('When a client last got a token through this login'),
    expiresAt: Instant('When the login expires; tokens may last longer'),
    clients: Type.Array(Type.Object({ id: clientId, name: clientName }), {
      description: 'The clients that the user logged in to',
    }),
  }),
)

const Grant = partialSchema(
  Type.Object({
    ...{ clientId, clientName },
    scopes: scopes('The scopes that the client can get tokens for; empty if only the consent is left'),
    since: InstantOrNull('When the oldest grant was made; null if only the consent is left'),
    lastTokenAt: InstantOrNull('When the client last got a token; null if none of its tokens is stored any more'),
    consent: Type.Unsafe<{ scopes: string[]; updatedAt: string } | null>({
      ...Type.Object({ scopes: scopes('The scopes that were shown'), updatedAt: Instant('When the user last agreed') }),
      type: ['object', 'null'],
      description: 'The consent that the service remembers; null if there is none, as for first-party clients',
    }),
  }),
)

const OfSession = Type.Object({
  ...OfUser.properties,
  sessionId: Type.String({ description: 'The id of the session', examples: ['3Dq1gT8mUqkVhXWtYvN2s'] }),
})
const OfGrant = Type.Object({
  ...OfUser.properties,
  clientId: Type.String({ description: 'The id of the client', examples: ['shop'] }),
})

/** Routes that list and end a user's sessions, and list and revoke the access that the user has granted to clients. */
export const accessRoutes: Plugin = async (app, options) => {
  for (const routes of [listing, ending]) await routes(app, options)
}

const listing: Plugin = async (app, { db, now }) => {
  const ofSessions = { tags, operationId: 'listSessions', summary: 'List the sessions of a user, newest first' }
  const ofUser = { params: OfUser, querystring: Narrowed }
  const sessions = { ...ofSessions, ...ofUser, response: { 200: Type.Array(Session) } }
  app.get(`${path}/sessions`, { config: reads, schema: sessions }, async ({ params }) => {
    await requireUser(db.read, params.id)
    return userSessions(db.read, params.id, now())
  })
  const ofGrants = { tags, operationId: 'listGrants', summary: 'List the clients that a user has given access' }
  const grants = { ...ofGrants, ...ofUser, response: { 200: Type.Array(Grant) } }
  app.get(`${path}/grants`, { config: reads, schema: grants }, async ({ params }) => {
    await requireUser(db.read, params.id)
    return userGrants(db.read, params.id, now())
  })
}

const ending: Plugin = async (app, { db, sealer, now }) => {
  const record = auditRecorder(sealer, now)
  /** Calls `unit` and records the audit entry that it returns, both in one transaction. */
  const end = async (
    request: FastifyRequest & { params: { id: number } },
    unit: (tx: Queryable) => Promise<Pick<AuditEntry, 'event' | 'details'>>,
  ) => {
    checkPostPreconditions(request)
    await db.write(async (tx) => {
      const entry = await unit(tx)
      await record(tx, { ...auditActor(request), ...entry, target: String(request.params.id) })
    })
  }
  const ofAll = { tags, operationId: 'deleteSessions', summary: 'End all sessions, grants and tokens of a user' }
  app.delete(`${path}/sessions`, { config: removals, schema: { ...ofAll, params: OfUser } }, async (request, reply) => {
    await end(request, async (tx) => {
      const sessions = await endSessions(tx, request.params.id, now())
      return { event: 'session.ended', details: { sessions } }
    })
    return reply.code(204).send()
  })
  const ofSession = { tags, operationId: 'deleteSession', summary: 'End a session, and the tokens got through it' }
  const oneSession = { config: removals, schema: { ...ofSession, params: OfSession } }
  app.delete(`${path}/sessions/:sessionId`, oneSession, async (request, reply) => {
    await end(request, async (tx) => {
      const { id, sessionId } = request.params
      const clients = await endSession(tx, id, sessionId, now())
      return { event: 'session.ended', details: { session: sessionId, clients } }
    })
    return reply.code(204).send()
  })
  const ofGrant = { tags, operationId: 'deleteGrant', summary: 'End the access of a client on behalf of a user' }
  app.delete(
    `${path}/grants/:clientId`,
    { config: removals, schema: { ...ofGrant, params: OfGrant } },
    async (request, reply) => {
      await end(request, async (tx) => {
        await endClientAccess(tx, request.params.id, request.params.clientId, now())
        return { event: 'consent.revoked', details: { client: request.params.clientId } }
      })
      return reply.code(204).send()
    },
  )
}
