import type { FastifyPluginAsync, FastifyReply } from 'fastify'
import type Provider from 'oidc-provider'
import type { Audit } from '../../audit/buffer.ts'
import { type AuditActor, auditRecorder } from '../../audit/chain.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import { fillGrant, rememberConsent } from '../provider/consent.ts'
import type { CurrentServer } from '../provider/current-server.ts'
import { interactionPath } from '../provider/http/endpoints.ts'
import { isGrantable, knownScopes, type Scopes, scopeDescriptions } from '../tokens/scopes.ts'
import { accountBySubject } from '../users/accounts.ts'
import type { Login } from '../users/login.ts'
import { deviceCookie } from '../users/login-throttle.ts'
import { consentBody, consentTitle } from './consent.ts'
import { type FormRequest, type PageFailures, sendPage, servePages, sessionNotFound } from './form-routes.ts'
import { loginBody, loginTitle } from './login.ts'

export interface InteractionOptions extends PageFailures {
  provider: CurrentServer
  db: Database
  /** All scopes, described in plain language. */
  scopes: Scopes
  login: Login
  sealer: Sealer
  now: () => number
  /** Records the number of denied consents in the audit log. */
  audit?: Pick<Audit, 'tally'>
}

type Interaction = Awaited<ReturnType<Provider['interactionDetails']>>
type Result = Parameters<Provider['interactionResult']>[2]

const config = { scope: 'own' }
const wrongCredentials = 'The e-mail address or password is wrong.'
const denied = { error: 'access_denied', error_description: 'the user denied access' }

/**
 * Serves the login and consent pages between an authorization request and its response. Each page belongs to one
 * interaction, identified by a signed cookie that only the requesting browser has. A form that completes or cancels a
 * step redirects with 303 (RFC 9700 §4.12).
 */
export const interactions: FastifyPluginAsync<InteractionOptions> = async (app, options) => {
  servePages(app, options)
  const path = `${interactionPath}/:uid`
  app.get(path, { config }, async (request, reply) => show(options, request as FormRequest, reply))
  app.post(`${path}/login`, { config: { ...config, limit: 'token' } }, async (request, reply) =>
    logIn(options, request as FormRequest, reply),
  )
  app.post(`${path}/consent`, { config }, async (request, reply) => decide(options, request as FormRequest, reply))
  app.post(`${path}/cancel`, { config }, async (request, reply) => {
    await current(options, request as FormRequest, reply)
    return finish(options, request as FormRequest, reply, denied)
  })
}

/** Returns this browser's interaction; the interaction id in the path must match the cookie. */
async function current({ provider }: InteractionOptions, { raw, params }: FormRequest, reply: FastifyReply) {
  const interaction = await (await provider.current).interactionDetails(raw, reply.raw)
  if (interaction.uid !== params.uid) throw sessionNotFound('the interaction belongs to another browser')
  return interaction
}

async function finish(
  { provider }: InteractionOptions,
  { raw }: FormRequest,
  reply: FastifyReply,
  result: Result,
  mergeWithLastSubmission = false,
): Promise<FastifyReply> {
  const server = await provider.current
  const returnTo = await server.interactionResult(raw, reply.raw, result, { mergeWithLastSubmission })
  return reply.header('cache-control', 'no-store').redirect(returnTo, 303)
}

async function show(options: InteractionOptions, request: FormRequest, reply: FastifyReply): Promise<FastifyReply> {
  const interaction = await current(options, request, reply)
  if (interaction.prompt.name !== 'consent') {
    const hint = interaction.params.login_hint
    return showLogin(options, interaction, reply, 200, typeof hint === 'string' ? hint : '')
  }
  const { account, scopes, redirectUri } = await consentRequest(options, interaction)
  const clientName = await clientNameOf(options, interaction)
  const { name, email } = account
  const asks = scopeDescriptions(options.scopes, scopes)
  const view = { uid: interaction.uid, clientName, redirectUri, name, email, asks }
  return sendPage(reply, 200, options.frame(consentTitle(view), consentBody(view), { targets: [redirectUri] }))
}

async function clientNameOf({ provider }: InteractionOptions, { params }: Interaction): Promise<string> {
  const client = await (await provider.current).Client.find(String(params.client_id))
  if (!client) throw new Problem('INVALID_INPUT', 'The app that sent you here is no longer registered.')
  return client.clientName ?? client.clientId
}

async function showLogin(
  options: InteractionOptions,
  interaction: Interaction,
  reply: FastifyReply,
  status: number,
  email: string,
  error?: string,
): Promise<FastifyReply> {
  const clientName = await clientNameOf(options, interaction)
  const body = loginBody({ uid: interaction.uid, clientName, email, error })
  const targets = [String(interaction.params.redirect_uri)]
  return sendPage(reply, status, options.frame(loginTitle, body, { targets }))
}

async function logIn(options: InteractionOptions, request: FormRequest, reply: FastifyReply): Promise<FastifyReply> {
  const interaction = await current(options, request, reply)
  if (interaction.prompt.name !== 'login') throw sessionNotFound('the login is already complete')
  const { email = '', password = '' } = request.body ?? {}
  const device = deviceCookie((await options.provider.current).issuer)
  const deviceToken = device.tokenIn(request.headers.cookie)
  const { address, ...by } = actorOf(interaction, request)
  const result = await options.login({ email, password, address, deviceToken, by })
  if ('account' in result) {
    reply.header('set-cookie', device.withToken(result.deviceToken))
    const login = { accountId: String(result.account.userId), amr: ['pwd'] }
    return finish(options, request, reply, { login })
  }
  const { waitSeconds } = result
  if (waitSeconds === 0) return showLogin(options, interaction, reply, 422, email, wrongCredentials)
  reply.header('retry-after', String(waitSeconds))
  const wait = waitSeconds === 1 ? '1 second' : `${waitSeconds} seconds`
  return showLogin(options, interaction, reply, 429, email, `Too many attempts. Wait ${wait}, then try again.`)
}

/** Returns the actor for audit entries about a form; the user is unknown before the login. */
const actorOf = ({ params }: Interaction, { ip, id }: FormRequest) => ({
  ...{ clientId: String(params.client_id), address: ip, requestId: id },
})

/**
 * Returns the account, the requested scopes, those that the user's role can grant, and the redirect URI. Throws
 * `sessionNotFound` if the interaction does not prompt for consent.
 */
async function consentRequest({ db, scopes: known }: InteractionOptions, { params, session, prompt }: Interaction) {
  const account = session && (await accountBySubject(db, session.accountId))
  if (prompt.name !== 'consent' || !account) throw sessionNotFound('the interaction does not ask for consent')
  const requested = knownScopes(known, String(params.scope).split(' '))
  const scopes = requested.filter((scope) => isGrantable(account.role, scope))
  return { account, requested, scopes, redirectUri: String(params.redirect_uri) }
}

async function decide(options: InteractionOptions, request: FormRequest, reply: FastifyReply): Promise<FastifyReply> {
  const interaction = await current(options, request, reply)
  const requested = await consentRequest(options, interaction)
  const actor = { ...actorOf(interaction, request), subject: String(requested.account.userId) }
  if (request.body?.decision !== 'allow') {
    options.audit?.tally({ ...actor, event: 'consent.denied', details: { scopes: requested.scopes } })
    return finish(options, request, reply, denied)
  }
  const grantId = await consent(options, interaction, requested, actor)
  return finish(options, request, reply, { consent: { grantId } }, true)
}

/**
 * Stores consent only for the scopes that were shown, and returns the id of the grant. The user is asked about the
 * other requested scopes once the user's role can grant them.
 */
async function consent(
  options: InteractionOptions,
  interaction: Interaction,
  { account, requested, scopes }: Awaited<ReturnType<typeof consentRequest>>,
  actor: AuditActor,
): Promise<string> {
  const { db, sealer, now } = options
  const provider = await options.provider.current
  const { params, grantId } = interaction
  const clientId = String(params.client_id)
  const found = grantId === undefined ? undefined : await provider.Grant.find(grantId)
  const grant = found ?? new provider.Grant({ accountId: String(account.userId), clientId })
  fillGrant(grant, [params.resource].flat().map(String), requested, account.role)
  await db.write(async (tx) => {
    await rememberConsent(tx, { userId: account.userId, clientId, scopes }, now())
    await auditRecorder(sealer, now)(tx, { ...actor, event: 'consent.granted', details: { scopes } })
  })
  return grant.save()
}
