import { errors, type default as Provider, type ResourceServer, type TokenEndpointGrantContext } from 'oidc-provider'

/** The service's own API as a resource server (RFC 8707), which is the only audience of the service's access tokens. */
export interface Api extends ResourceServer {
  audience: string
}

/** Returns whether `resource`, if present, identifies this API and nothing else (RFC 8707 §2). */
export function namesApi(resource: unknown, { audience }: Api): boolean {
  if (resource === undefined) return true
  return typeof resource === 'string' && URL.parse(resource)?.href === URL.parse(audience)?.href
}

/**
 * Adds the client credentials grant (RFC 6749 §4.4). This grant differs from the provider's in two ways: a request
 * without `scope` gets all of the client's scopes (§3.3), and a scope that the client does not have is rejected with
 * `invalid_scope` instead of being dropped.
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

/**
 * Returns the requested scopes, by default all of the client's. Throws `invalid_scope` for a scope that the client does
 * not have (RFC 6749 §3.3).
 */
export function requestedScope(requested: string | undefined, own: string): string {
  if (requested === undefined) return own
  const allowed = new Set(own.split(' '))
  const scopes = [...new Set(requested.split(' '))]
  const refused = scopes.filter((scope) => !allowed.has(scope))
  if (refused.length > 0) throw new errors.InvalidScope('requested scope is not allowed', refused.join(' '))
  return scopes.join(' ')
}
