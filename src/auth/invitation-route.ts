import type { FastifyPluginAsync } from 'fastify'
import { Type } from 'typebox'
import { actorOf } from '../http/actor.ts'
import type { Role } from './accounts.ts'
import type { Invitations } from './invitations.ts'
import type { SendInvitation } from './mail.ts'

export interface InvitationRouteOptions {
  invitations: Invitations
  /** Null where no mail server is set. */
  sendInvitation: SendInvitation | null
  /** Is told why a mail was not taken. */
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
  sent: Type.Boolean({ description: 'Whether a mail server took it for that address' }),
})
const Wanted = Type.Object({
  role: Type.Optional(
    Type.Union([Type.Literal('user'), Type.Literal('admin')], {
      description: 'user without it',
      examples: ['admin'],
    }),
  ),
})
const params = Type.Object({ id: Type.Integer({ minimum: 1, maximum: 2_147_483_647 }) })

/** POST /api/users/{id}/invitation: lets a user choose a password, by a link that is shown this once. */
export const invitationRoute: FastifyPluginAsync<InvitationRouteOptions> = async (app, options) => {
  const { invitations, sendInvitation, report } = options
  const about = { operationId: 'inviteUser', summary: 'Invite a user to choose a password', tags: ['users'] }
  const send = sendInvitation ?? (() => Promise.resolve())
  app.post<{ Params: { id: number }; Body: { role?: Role } }>(
    '/api/users/:id/invitation',
    {
      config: { scope: 'admin', cache: 'none' },
      schema: { ...about, params, body: Wanted, response: { 201: Created } },
      // All there is to say may be left unsaid.
      preValidation: async (request) => {
        request.body ??= {}
      },
    },
    async (request, reply) => {
      const { params, body, id: requestId } = request
      const invitation = await invitations.invite(params.id, body.role, actorOf(request))
      // The link is made, and the caller has it: a mail server that is down is the operator's to know of.
      const taken = await send(invitation).then(
        () => true,
        (error: unknown) => {
          report(error, requestId)
          return false
        },
      )
      const { url, expiresAt, email } = invitation
      return reply.code(201).send({ url, expiresAt, email, sent: taken && sendInvitation !== null })
    },
  )
}
