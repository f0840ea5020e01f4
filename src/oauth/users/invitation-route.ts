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
  /** Called with the error if a mail was not accepted. */
  report: (error: unknown, requestId: string) => void
}

const Created = Type.Object({
  url: Type.String({
    format: 'uri',
    description: 'Works once; give it to the person and nobody else',
    examples: ['https://localhost:8443/oauth/invitation?token=TOKEN'],
  }),
  expiresAt: Type.String({ format: 'date-time' }),
  email: Type.String({ format: 'email' }),
  sent: Type.Optional(
    Type.Boolean({ description: 'Whether a mail server took it for that address; a repeated request is not told' }),
  ),
})
const Wanted = Type.Object({
  role: Type.Optional(
    Type.Union([Type.Literal('user'), Type.Literal('admin')], {
      description: 'What they may do',
      ...documentedRules({ default: 'user' }),
      examples: ['admin'],
    }),
  ),
})
const params = Type.Object({ id: Type.Integer({ minimum: 1, description: 'Of the user', examples: [1] }) })

/** POST /api/users/{id}/invitation: lets a user set a password by a link that is shown only in this response. */
export const invitationRoute: FastifyPluginAsync<InvitationRouteOptions> = async (app, options) => {
  const { db, invitations, sendInvitation, report } = options
  const about = { operationId: 'inviteUser', summary: 'Invite a user to choose a password', tags: ['administration'] }
  app.post<{ Params: { id: number }; Body: { role?: Role } }>(
    '/api/users/:id/invitation',
    {
      config: { scope: 'admin', cache: 'none', bodyOptional: true, problems: ['LAST_ADMINISTRATOR'] },
      schema: { ...about, params, body: Wanted, response: { 201: Created } },
    },
    async (request, reply) => {
      const made: Invitation[] = []
      const answer = await idempotentWrite(request, reply, db.write, async (tx) => {
        const invitation = await invitations.inviteIn(tx, request.params.id, request.body.role, auditActor(request))
        made.push(invitation)
        const { url, expiresAt, email } = invitation
        // The mail is sent only after the response is stored, so its result is unknown here.
        const body = { url, expiresAt, email, ...(!sendInvitation && { sent: false }) }
        return { status: 201, headers: {}, body }
      })
      // A repeated request finds the stored response and creates nothing, so no mail is sent again.
      const [invitation] = made
      if (!invitation || !sendInvitation) return answer
      // The caller already has the link: only the operator needs to know that the mail server is down.
      const refused = await sendInvitation(invitation).then(
        () => null,
        (error: unknown) => ({ error }),
      )
      if (refused) report(refused.error, request.id)
      return { ...answer, sent: refused === null }
    },
  )
}
