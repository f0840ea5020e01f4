import type { FastifyPluginAsync, FastifyReply } from 'fastify'
import { auditActor } from '../../http/policies/authenticate.ts'
import { invitationPath } from '../provider/http/endpoints.ts'
import type { Invitations } from '../users/invitations.ts'
import { errorTitle, plainErrorBody } from './error.ts'
import { type FormRequest, type PageFailures, sendPage, servePages } from './form-routes.ts'
import { invitationBody, invitationTitle, passwordSetBody, passwordSetTitle } from './invitation.ts'

export interface InvitationPageOptions extends PageFailures {
  invitations: Invitations
}

const config = { scope: 'own' }
const invalidLink = 'This link has already been used or is older than half an hour. Ask for a new one.'
const mismatch = 'The two passwords do not match.'

/**
 * Serves the page where an invited user sets a password. The token in the link authenticates the user, without a cookie.
 */
export const invitationPage: FastifyPluginAsync<InvitationPageOptions> = async (app, options) => {
  servePages(app, options)
  app.get<{ Querystring: Record<string, unknown> }>(invitationPath, { config }, async ({ query }, reply) =>
    showForm(options, reply, 200, String(query.token)),
  )
  app.post(invitationPath, { config }, async (request, reply) => {
    const { token = '', password = '', repeated = '' } = (request as FormRequest).body ?? {}
    if (password !== repeated) return showForm(options, reply, 422, token, mismatch)
    const outcome = await options.invitations.accept(token, password, auditActor(request))
    if (outcome === 'set') return sendPage(reply, 200, options.frame(passwordSetTitle, passwordSetBody))
    if (outcome === 'invalid') return showForm(options, reply, 422, token)
    return showForm(options, reply, 422, token, `The password ${outcome.error}.`)
  })
}

async function showForm(
  { frame, invitations }: InvitationPageOptions,
  reply: FastifyReply,
  status: number,
  token: string,
  error?: string,
): Promise<FastifyReply> {
  const invited = await invitations.read(token)
  if (!invited) return sendPage(reply, 404, frame(errorTitle, plainErrorBody(invalidLink)))
  const body = invitationBody({ action: invitationPath, token, ...invited, error })
  return sendPage(reply, status, frame(invitationTitle, body))
}
