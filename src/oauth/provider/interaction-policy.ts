import { decodeJwt } from 'jose'
import { type Configuration, errors, interactionPolicy, type KoaContextWithOIDC } from 'oidc-provider'

type Policy = NonNullable<NonNullable<Configuration['interactions']>['policy']>

/** When a person is asked: as the provider does it, except that the operator's own apps never ask for consent. */
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
 * Refuses a request without a scope, as there is none to fall back to (RFC 6749 §3.3), and one with a scope that the
 * service does not have (§4.1.2.1), which the provider would leave out; both before anybody has to log in.
 */
function refuseWrongScopes({ oidc }: KoaContextWithOIDC): false {
  const { requestParamScopes: named, requestParamOIDCScopes: known } = oidc
  const unknown = [...named].filter((scope) => !known.has(scope))
  if (unknown.length > 0) throw new errors.InvalidScope('the service has no such scope', unknown.join(' '))
  if (named.size === 0) throw new errors.InvalidScope('the request must name a scope', '')
  return false
}

/**
 * A request with an ID token is for its person alone (OpenID Connect Core §3.1.2.1). The provider compares before it asks
 * for a login, when it has verified the token; this is for who came back from the pages.
 */
function refuseAnother({ oidc }: KoaContextWithOIDC): false {
  const hint = oidc.params?.id_token_hint
  if (typeof hint !== 'string' || !oidc.result || decodeJwt(hint).sub === oidc.session?.accountId) return false
  throw new errors.LoginRequired('id_token_hint is of somebody else than who logged in')
}
