/** Scopes with what each allows in plain words: shown on the consent page and in the documents. */
export type Scopes = Readonly<Record<string, string>>

/** The scopes about a person who logged in (OpenID Connect Core §5.4, §11). */
const personal: Scopes = {
  openid: 'Know who you are: your name and e-mail address',
  profile: 'See your profile',
  email: 'See your e-mail address',
  offline_access: 'Keep access while you are away',
}

/** The scopes that every service has, whatever its resources. */
const common: Scopes = {
  'reports:read': 'See your reports and download them',
  'reports:write': 'Create, cancel and delete reports',
  'webhooks:read': 'See your webhooks and their deliveries',
  'webhooks:write': 'Register, change and remove webhooks',
}

const administrative: Scopes = {
  'audit:read': 'Read the audit log',
  admin: 'Administer the service',
}

/** Every scope of a service with these resources, in the order they are shown. */
export const scopesWith = (resources: Scopes): Scopes =>
  Object.freeze({ ...personal, ...common, ...resources, ...administrative })

/** All three say who somebody is, and an ID token has all of it. */
const identity = ['openid', 'profile', 'email']

/** What these scopes allow, a line each; those about the person's identity are one line together. */
export function inPlainWords(scopes: Scopes, names: readonly string[]): string[] {
  const shown = names.map((name) => (identity.includes(name) ? 'openid' : name))
  return [...new Set(shown)].flatMap((name) => scopes[name] ?? [])
}

/** The names of those scopes that guard the API itself. */
export const apiScopes = (scopes: Scopes): string[] =>
  Object.keys(scopes).filter((scope) => !Object.hasOwn(personal, scope))

/** The names among `names` that are scopes of the service. */
export function knownScopes(scopes: Scopes, names: readonly string[]): string[] {
  return names.filter((name) => Object.hasOwn(scopes, name))
}

/** The names among `names` that are no scope of the service. */
export function unknownScopes(scopes: Scopes, names: readonly string[]): string[] {
  return names.filter((name) => !Object.hasOwn(scopes, name))
}

const adminScopes: readonly string[] = ['users:read:full', 'users:write', 'audit:read', 'admin']

/** Whether a person of that role can pass a scope on to a client; what nobody can is not asked for in vain, but left out. */
export function grantableScopes(role: 'user' | 'admin', scope: string): boolean {
  return role === 'admin' || !adminScopes.includes(scope)
}

/** What a token has now: of the scopes it was given those that its client still may have. */
export function intersectScopes(given: string, ofClient: string): string {
  const allowed = ofClient.split(' ')
  return given
    .split(' ')
    .filter((name) => allowed.includes(name))
    .join(' ')
}
