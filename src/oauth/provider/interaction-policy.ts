import { decodeJwt } from 'jose'
import { type Configuration, errors, interactionPolicy, type KoaContextWithOIDC } from 'oidc-provider'

type Policy = NonNullable<NonNullable<Configuration['interactions']>['policy']>

/** When to prompt a user: the provider's policy, except that first-party clients never ask for consent. */
export function whenToAsk(): Policy {
  const prompts = interactionPolicy.base()
  const [login, consent] = [prompts.get('login'), prompts.get('consent')]
  login?.checks.add(new interactionPolicy.Check('wrong_scope', 'the scopes are wrong', refuseWrongScopes), 0)
  login?.checks.add(new interactionPolicy.Check('other_person', 'somebody else logged in', refuseAnother), 0)
  const native = consent?.checks.get('native_client_prompt')
  if (!native) throw new Error('This release of oidc-provider has no check for native clients')
  const { check } = native
  native.check = (ctx) => (ctx.oidc.client?.is_first_party ? false : check(ctx))
  return prompts
}

/**
 * Rejects a request without a scope, since there is no default (RFC 6749 §3.3), or with a scope unknown to the service
 * (§4.1.2.1), which the provider would ignore; both before the login.
 */
function refuseWrongScopes({ oidc }: KoaContextWithOIDC): false {
  const { requestParamScopes: named, requestParamOIDCScopes: known } = oidc
  const unknown = [...named].filter((scope) => !known.has(scope))
  if (unknown.length > 0) throw new errors.InvalidScope('the service has no such scope', unknown.join(' '))
  if (named.size === 0) throw new errors.InvalidScope('the request must name a scope', '')
  return false
}

/**
 * A request with an `id_token_hint` is only for that user (OpenID Connect Core §3.1.2.1). The provider compares before it
 * prompts for a login, once it has verified the token; this covers returning from the pages.
 */
function refuseAnother({ oidc }: KoaContextWithOIDC): false {
  const hint = oidc.params?.id_token_hint
  if (typeof hint !== 'string' || !oidc.result || decodeJwt(hint).sub === oidc.session?.accountId) return false
  throw new errors.LoginRequired('id_token_hint is of somebody else than who logged in')
}
