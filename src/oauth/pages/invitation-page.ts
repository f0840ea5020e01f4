import type { FastifyPluginAsync, FastifyReply } from 'fastify'
import { auditActor } from '../../http/policies/authenticate.ts'
import type { Queryable } from '../../storage/database.ts'
import { invitationPath } from '../provider/http/endpoints.ts'
import type { Invitations } from '../users/invitations.ts'
import { errorTitle, plainErrorBody } from './error.ts'
import { type FormRequest, type PageFailures, sendPage, servePages } from './form-routes.ts'
import { fieldPrefix, invitationBody, invitationTitle, passwordSetBody, passwordSetTitle } from './invitation.ts'

/** The fields that invited users may fill in. */
export interface OwnFields {
  fields: readonly { name: string; label: string; maxLength: number | undefined }[]
  /** Validates the texts that the user entered; fields left blank are omitted. */
  read: (texts: Readonly<Record<string, string>>) => { values: Record<string, unknown> } | { error: string }
  store: (tx: Queryable, userId: number, values: Record<string, unknown>) => Promise<void>
}

export interface InvitationPageOptions extends PageFailures {
  invitations: Invitations
  /** Fields that the user may fill in besides the password; by default, none. */
  own?: OwnFields | undefined
}

const config = { scope: 'own' }
const invalidLink = 'This link has already been used or is older than half an hour. Ask for a new one.'
const mismatch = 'The two passwords do not match.'

/**
 * Serves the page where an invited user sets a password. The token in the link authenticates the user, without a
 * cookie.
 */
export const invitationPage: FastifyPluginAsync<InvitationPageOptions> = async (app, options) => {
  servePages(app, options)
  app.get<{ Querystring: Record<string, unknown> }>(invitationPath, { config }, async ({ query }, reply) =>
    showForm(options, reply, 200, { token: String(query.token), texts: {} }),
  )
  app.post(invitationPath, { config }, async (request, reply) => {
    const { token = '', password = '', repeated = '', ...form } = (request as FormRequest).body ?? {}
    const texts = textsOf(form)
    const retry = (error?: string) => showForm(options, reply, 422, { token, texts }, error)
    if (password !== repeated) return retry(mismatch)
    const entered = options.own?.read(texts) ?? { values: {} }
    if ('error' in entered) return retry(entered.error)
    const store = (tx: Queryable, userId: number) => options.own?.store(tx, userId, entered.values) ?? Promise.resolve()
    const outcome = await options.invitations.accept(token, password, auditActor(request), store)
    if (outcome === 'set') return sendPage(reply, 200, options.frame(passwordSetTitle, passwordSetBody))
    if (outcome === 'invalid') return retry()
    return retry(`The password ${outcome.error}.`)
  })
}

/** The values submitted in the form, except the password. */
interface Entered {
  token: string
  texts: Readonly<Record<string, string>>
}

/** Returns the texts entered in the additional fields, by field name. */
const textsOf = (form: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(form).flatMap(([name, text]) =>
      name.startsWith(fieldPrefix) ? [[name.slice(fieldPrefix.length), text]] : [],
    ),
  )

async function showForm(
  { frame, invitations, own }: InvitationPageOptions,
  reply: FastifyReply,
  status: number,
  { token, texts }: Entered,
  error?: string,
): Promise<FastifyReply> {
  const invited = await invitations.read(token)
  if (!invited) return sendPage(reply, 404, frame(errorTitle, plainErrorBody(invalidLink)))
  const fields = (own?.fields ?? []).map((field) => ({ ...field, value: texts[field.name] ?? '' }))
  const body = invitationBody({ action: invitationPath, token, ...invited, error, fields })
  return sendPage(reply, status, frame(invitationTitle, body))
}
