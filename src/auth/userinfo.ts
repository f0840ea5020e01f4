import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { Database } from '../db/open.ts'
import { accountBySubject } from './accounts.ts'
import { endpoints } from './endpoints.ts'

const config = { scope: 'own' }

/**
 * GET and POST /oauth/userinfo (OpenID Connect Core §5.3) for the access tokens of this service, which oidc-provider
 * itself refuses there because they name an audience. The token comes in the Authorization header and nowhere else;
 * refusals are those of RFC 6750 §3.1.
 */
export const userinfo: FastifyPluginAsync<{ db: Database }> = async (app, { db }) => {
  const answer = (request: FastifyRequest, reply: FastifyReply) => claimsOf(db, request, reply)
  // A form may be sent, as OpenID Connect allows POST; nothing of it is needed.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, (_request, _body, done) =>
    done(null, undefined),
  )
  app.get(endpoints.userinfo, { config }, answer)
  app.post(endpoints.userinfo, { config }, answer)
}

async function claimsOf(db: Database, { caller }: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  reply.header('cache-control', 'no-store')
  if (caller === null) return refuse(reply, 401, 'invalid_token', 'no access token was sent', '')
  if ('refused' in caller) return refuse(reply, 401, 'invalid_token', 'the access token is not valid')
  const { clientId, subject, scopes } = caller.caller
  if (!scopes.has('openid')) return refuse(reply, 403, 'insufficient_scope', 'the access token lacks the scope openid')
  const account = subject === clientId ? undefined : await accountBySubject(db, subject)
  if (!account) return refuse(reply, 401, 'invalid_token', 'the access token speaks for no person')
  const { name, email } = account
  return reply.send({ sub: subject, ...(scopes.has('profile') && { name }), ...(scopes.has('email') && { email }) })
}

/** A request without any token is told of no error in the challenge (RFC 6750 §3.1). */
function refuse(
  reply: FastifyReply,
  status: 401 | 403,
  error: string,
  description: string,
  told = error,
): FastifyReply {
  const scope = status === 403 ? ', scope="openid"' : ''
  const challenge = `Bearer realm="plinth"${told && `, error="${told}"${scope}`}`
  return reply.code(status).header('www-authenticate', challenge).send({ error, error_description: description })
}
