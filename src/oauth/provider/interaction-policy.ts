import { decodeJwt } from 'jose'
import { type Configuration, errors, interactionPolicy, type KoaContextWithOIDC } from 'oidc-provider'

type Policy = NonNullable<NonNullable<Configuration['interactions']>['policy']>

/**
 * Returns the policy for prompting users: the provider's own, with more checks of the scopes and of `id_token_hint`,
 * and without the consent prompt for native first-party clients.
 */
export function promptPolicy(): Policy {
  const prompts = interactionPolicy.base()
  const [login, consent] = [prompts.get('login'), prompts.get('consent')]
  login?.checks.add(
    new interactionPolicy.Check('wrong_scope', 'the request names no scope or an unknown one', rejectWrongScopes),
    0,
  )
  login?.checks.add(new interactionPolicy.Check('other_person', 'another user logged in', rejectOtherUser), 0)
  const native = consent?.checks.get('native_client_prompt')
  if (!native) throw new Error('This version of oidc-provider has no check named native_client_prompt')
  const { check } = native
  native.check = (ctx) => (ctx.oidc.client?.is_first_party ? false : check(ctx))
  return prompts
}

/**
 * Before the login, rejects requests without a scope, because there is no default (RFC 6749 §3.3). Also rejects
 * requests with an unknown scope (§4.1.2.1), which the provider would ignore.
 */
function rejectWrongScopes({ oidc }: KoaContextWithOIDC): false {
  const { requestParamScopes: named, requestParamOIDCScopes: known } = oidc
  const unknown = [...named].filter((scope) => !known.has(scope))
  if (unknown.length > 0) throw new errors.InvalidScope('the service has no such scope', unknown.join(' '))
  if (named.size === 0) throw new errors.InvalidScope('the scope parameter is required', '')
  return false
}

/**
 * Rejects a login by a user other than the one in `id_token_hint` (OpenID Connect Core §3.1.2.1). Before it prompts for
 * a login, the provider itself verifies the hint and compares the users; this check covers the return from the login
 * page.
 */
function rejectOtherUser({ oidc }: KoaContextWithOIDC): false {
  const hint = oidc.params?.id_token_hint
  if (typeof hint !== 'string' || !oidc.result || decodeJwt(hint).sub === oidc.session?.accountId) return false
  throw new errors.LoginRequired('id_token_hint belongs to a user other than the one who logged in')
}
