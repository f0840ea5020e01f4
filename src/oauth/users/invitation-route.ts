import type { FastifyPluginAsync } from 'fastify'
import { Type } from 'typebox'
import { documentedRules } from '../../http/partial-schema.ts'
import { auditActor } from '../../http/policies/authenticate.ts'
import { idempotentWrite } from '../../idempotency/idempotent-write.ts'
import type { Database } from '../../storage/database.ts'
import type { Role } from './accounts.ts'
import type { Invitation, Invitations } from './invitations.ts'
import type { SendInvitation } from './mail.ts'

export interface InvitationRouteOptions {
  db: Database
  invitations: Invitations
  /** Null if no mail server is configured. */
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
const InvitationBody = Type.Object({
  role: Type.Optional(
    Type.Union([Type.Literal('user'), Type.Literal('admin')], {
      description: 'The role of the account',
      ...documentedRules({ default: 'user' }),
      examples: ['admin'],
    }),
  ),
})
const params = Type.Object({ id: Type.Integer({ minimum: 1, description: 'The id of the user', examples: [1] }) })

/**
 * Serves POST /api/users/{id}/invitation, which creates a link for setting a password; only this response contains the
 * link.
 */
export const invitationRoute: FastifyPluginAsync<InvitationRouteOptions> = async (app, options) => {
  const { db, invitations, sendInvitation, report } = options
  const about = { operationId: 'inviteUser', summary: 'Invite a user to choose a password', tags: ['administration'] }
  app.post<{ Params: { id: number }; Body: { role?: Role } }>(
    '/api/users/:id/invitation',
    {
      config: { scope: 'admin', cache: 'none', bodyOptional: true, problems: ['LAST_ADMINISTRATOR'] },
      schema: { ...about, params, body: InvitationBody, response: { 201: Created } },
    },
    async (request, reply) => {
      const created: Invitation[] = []
      const response = await idempotentWrite(request, reply, db.write, async (tx) => {
        const invitation = await invitations.inviteIn(tx, request.params.id, request.body.role, auditActor(request))
        created.push(invitation)
        const { url, expiresAt, email } = invitation
        // The mail is sent only after the response is stored, so the stored response does not say whether it was sent.
        const body = { url, expiresAt, email, ...(!sendInvitation && { sent: false }) }
        return { status: 201, headers: {}, body }
      })
      // A retry with the same Idempotency-Key creates no invitation, so no second mail is sent.
      const [invitation] = created
      if (!invitation || !sendInvitation) return response
      // The caller already has the link, so a mail server error is reported only to the operator.
      const failure = await sendInvitation(invitation).then(
        () => null,
        (error: unknown) => ({ error }),
      )
      if (failure) report(failure.error, request.id)
      return { ...response, sent: failure === null }
    },
  )
}
