import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { Database } from '../../storage/database.ts'
import { accountBySubject } from '../users/accounts.ts'
import { endpoints } from './http/endpoints.ts'
import { acceptRawBodies, isForm, renderBodyErrors } from './http/http-bodies.ts'

const config = { scope: 'own' }

interface UserinfoOptions {
  db: Database
  /** Reads the fields that the service adds for the scope `profile`. */
  readAdded?: (userId: number) => Promise<Record<string, unknown>>
}

/**
 * Serves GET and POST /oauth/userinfo (OpenID Connect Core §5.3) for this service's access tokens, which
 * oidc-provider's own endpoint rejects because they have an audience. Accepts the token only in the Authorization
 * header; errors follow RFC 6750 §3.1.
 */
export const userinfo: FastifyPluginAsync<UserinfoOptions> = async (app, options) => {
  const handler = (request: FastifyRequest, reply: FastifyReply) => claimsOf(options, request, reply)
  renderBodyErrors(app)
  acceptRawBodies(app)
  app.get(endpoints.userinfo, { config }, handler)
  app.post(endpoints.userinfo, { config }, handler)
}

async function claimsOf(
  { db, readAdded }: UserinfoOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  reply.header('cache-control', 'no-store')
  const { caller } = request
  if (caller === null) return challenge(reply)
  if ('refused' in caller) return refuse(reply, 401, 'invalid_token', 'the access token is not valid')
  const invalid = invalidRequest(request)
  if (invalid) return refuse(reply, 400, 'invalid_request', invalid)
  const { clientId, subject, scopes } = caller.caller
  if (!scopes.has('openid')) return refuse(reply, 403, 'insufficient_scope', 'the access token lacks the scope openid')
  const account = subject === clientId ? undefined : await accountBySubject(db, subject)
  if (!account) return refuse(reply, 401, 'invalid_token', 'the access token was not issued to a user')
  const { name, email } = account
  const profile = scopes.has('profile') && { ...(await readAdded?.(account.userId)), name }
  return reply.send({ sub: subject, ...profile, ...(scopes.has('email') && { email }) })
}

/**
 * Returns why a request is invalid; undefined if it is valid. OpenID Connect allows a POST with a form; its fields are
 * ignored, but a second token is an error (RFC 6750 §2).
 */
function invalidRequest({ body, headers, query }: FastifyRequest): string | undefined {
  const sent = (body as Buffer | undefined)?.toString() ?? ''
  if (sent !== '' && !isForm(headers)) return 'the body must be application/x-www-form-urlencoded, or absent'
  const isTwice = Object.hasOwn(query as object, 'access_token') || new URLSearchParams(sent).has('access_token')
  return isTwice ? 'send the access token only in the Authorization header' : undefined
}

const realm = 'Bearer realm="plinth"'

/** Responds to a request without a token; the challenge has no error code (RFC 6750 §3.1). */
function challenge(reply: FastifyReply): FastifyReply {
  const description = 'send an access token in the Authorization header: Bearer <ACCESS_TOKEN>'
  return reply.code(401).header('www-authenticate', realm).send({ error_description: description })
}

function refuse(reply: FastifyReply, status: 400 | 401 | 403, error: string, description: string): FastifyReply {
  const scope = status === 403 ? ', scope="openid"' : ''
  const challenges = `${realm}, error="${error}"${scope}`
  return reply.code(status).header('www-authenticate', challenges).send({ error, error_description: description })
}
