import type { FastifyPluginAsync } from 'fastify'
import { Type } from 'typebox'
import { documentedRules } from '../../http/partial-schema.ts'
import { auditActor, authorOf, type Caller } from '../../http/policies/authenticate.ts'
import { idempotentWrite } from '../../idempotency/idempotent-write.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Role } from './accounts.ts'
import type { Invitation, Invitations } from './invitations.ts'
import type { SendInvitation } from './mail.ts'

/** The roles that the service declares, and a function that assigns one of them to a user. */
export interface DeclaredRoles {
  names: readonly string[]
  give: (tx: Queryable, userId: number, role: string, caller: Caller) => Promise<void>
}

export interface InvitationRouteOptions {
  db: Database
  /** The declared roles; null if the service declares none. */
  roles: DeclaredRoles | null
  invitations: Invitations
  /** Sends an invitation by mail; null if no mail server is configured. */
  sendInvitation: SendInvitation | null
  /** Called with the error if the mail server does not accept an invitation. */
  report: (error: unknown, requestId: string) => void
}

const Created = Type.Object({
  url: Type.String({
    format: 'uri',
    description: 'A single-use link; give it only to the invited user',
    examples: ['https://localhost:8443/oauth/invitation?token=TOKEN'],
  }),
  expiresAt: Type.String({ format: 'date-time' }),
  email: Type.String({ format: 'email' }),
  sent: Type.Optional(
    Type.Boolean({ description: 'Whether the mail server accepted the invitation; absent from a replayed response' }),
  ),
})
const accountRoles = ['user', 'admin']

const invitationBody = (roles: readonly string[]) =>
  Type.Object({
    role: Type.Optional(
      Type.Union(
        [...accountRoles, ...roles].map((role) => Type.Literal(role)),
        {
          description: roles.length > 0 ? 'The role of the account, or of the user' : 'The role of the account',
          ...documentedRules({ default: 'user' }),
          examples: ['admin'],
        },
      ),
    ),
  })
const params = Type.Object({ id: Type.Integer({ minimum: 1, description: 'The id of the user', examples: [1] }) })

/**
 * Serves POST /api/users/{id}/invitation, which creates a link for setting a password; only this response contains the
 * link.
 */
export const invitationRoute: FastifyPluginAsync<InvitationRouteOptions> = async (app, options) => {
  const { db, invitations, sendInvitation, report, roles } = options
  const about = { operationId: 'inviteUser', summary: 'Invite a user to choose a password', tags: ['administration'] }
  app.post<{ Params: { id: number }; Body: { role?: string } }>(
    '/api/users/:id/invitation',
    {
      config: { scope: 'admin', cache: 'none', bodyOptional: true, problems: ['LAST_ADMINISTRATOR'] },
      schema: { ...about, params, body: invitationBody(roles?.names ?? []), response: { 201: Created } },
    },
    async (request, reply) => {
      const created: Invitation[] = []
      const response = await idempotentWrite(request, reply, db.write, async (tx) => {
        const { id } = request.params
        const { role } = request.body
        const isDeclared = role !== undefined && !accountRoles.includes(role)
        if (isDeclared) await roles?.give(tx, id, role, authorOf(request))
        const actor = auditActor(request)
        const invitation = await invitations.inviteIn(tx, id, isDeclared ? undefined : (role as Role), actor, role)
        created.push(invitation)
        const { url, expiresAt, email } = invitation
        // The mail is sent only after the response is stored, so the stored response does not say whether the mail was
        // sent.
        const body = { url, expiresAt, email, ...(!sendInvitation && { sent: false }) }
        return { status: 201, headers: {}, body }
      })
      // A retry with the same Idempotency-Key creates no invitation, so no second mail is sent.
      const [invitation] = created
      if (!invitation || !sendInvitation) return response
      // The response contains the link in any case, so a mail server error does not fail the request: the response has
      // `sent: false`, and the operator receives the error.
      const failure = await sendInvitation(invitation).then(
        () => null,
        (error: unknown) => ({ error }),
      )
      if (failure) report(failure.error, request.id)
      return { ...response, sent: failure === null }
    },
  )
}
