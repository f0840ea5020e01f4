import { type Configuration, errors, interactionPolicy, type KoaContextWithOIDC } from 'oidc-provider'

type Policy = NonNullable<NonNullable<Configuration['interactions']>['policy']>

/** When a person is asked: as the provider does it, except that the operator's own apps never ask for consent. */
export function whenToAsk(): Policy {
  const prompts = interactionPolicy.base()
  const [login, consent] = [prompts.get('login'), prompts.get('consent')]
  login?.checks.add(new interactionPolicy.Check('no_scope', 'the request names no scope', refuseWithoutScope), 0)
  const native = consent?.checks.get('native_client_prompt')
  if (!native) throw new Error('This release of oidc-provider has no check for native clients')
  const { check } = native
  native.check = (ctx) => (ctx.oidc.client?.is_first_party ? false : check(ctx))
  return prompts
}

/** There is no scope to fall back to (RFC 6749 §3.3); told before anybody has to log in. */
function refuseWithoutScope({ oidc }: KoaContextWithOIDC): false {
  if (!oidc.params?.scope) throw new errors.InvalidScope('the request must name a scope', '')
  return false
}
