import { errors, type default as Provider, type ResourceServer, type TokenEndpointGrantContext } from 'oidc-provider'

/** Our own API as the authorization server knows it (RFC 8707): the one thing its access tokens are for. */
export interface Api extends ResourceServer {
  audience: string
}

/** Whether a `resource` parameter, when there is one, names our API and nothing else (RFC 8707 §2). */
export function namesApi(resource: unknown, { audience }: Api): boolean {
  if (resource === undefined) return true
  return typeof resource === 'string' && URL.parse(resource)?.href === URL.parse(audience)?.href
}

/**
 * The grant of RFC 6749 §4.4. In two things it says more than the provider's own: a request without `scope` gets all of the
 * client's scopes (§3.3), and one that names any other scope gets `invalid_scope` instead of a token without it.
 */
export function allowClientCredentials(provider: Provider, api: Api): void {
  const handle = async (ctx: TokenEndpointGrantContext): Promise<void> => {
    const { client, params } = ctx.oidc
    if (!namesApi(params.resource, api)) throw new errors.InvalidTarget()
    const scope = requestedScope(params.scope, client.scope ?? '')
    const token = new provider.ClientCredentials({ client, scope })
    token.resourceServer = new provider.ResourceServer(api.audience, api)
    ctx.oidc.entity('ClientCredentials', token)
    ctx.body = { access_token: await token.save(), token_type: 'Bearer', expires_in: token.expiration, scope }
  }
  provider.registerGrantType('client_credentials', handle, ['scope', 'resource'], ['resource'])
}

/** What a client asks for, or all it may have; throws `invalid_scope` for more than that (RFC 6749 §3.3). */
export function requestedScope(requested: string | undefined, own: string): string {
  if (requested === undefined) return own
  const allowed = new Set(own.split(' '))
  const asked = [...new Set(requested.split(' '))]
  const refused = asked.filter((scope) => !allowed.has(scope))
  if (refused.length > 0) throw new errors.InvalidScope('requested scope is not allowed', refused.join(' '))
  return asked.join(' ')
}
