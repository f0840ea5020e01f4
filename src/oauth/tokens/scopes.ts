/** Scopes with their descriptions, as shown on the consent page and in the documentation. */
export type Scopes = Readonly<Record<string, string>>

/** The scopes that concern the logged-in user (OpenID Connect Core §5.4, §11). */
const personal: Scopes = {
  openid: 'Know who you are: your name and e-mail address',
  profile: 'See your profile',
  email: 'See your e-mail address',
  offline_access: 'Keep access while you are away',
}

/** The scopes that every service has, regardless of its resources. */
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

/** Returns all scopes of a service with these resources, in display order. */
export const scopesWith = (resources: Scopes): Scopes =>
  Object.freeze({ ...personal, ...common, ...resources, ...administrative })

/** Scopes that identify the user. They share one description, because an ID token contains the claims of all three. */
const identity = ['openid', 'profile', 'email']

/** Returns the descriptions of these scopes, one per line; the identity scopes share one line. */
export function scopeDescriptions(scopes: Scopes, names: readonly string[]): string[] {
  const merged = names.map((name) => (identity.includes(name) ? 'openid' : name))
  return [...new Set(merged)].flatMap((name) => scopes[name] ?? [])
}

/** Returns the names of the scopes that protect the API itself. */
export const apiScopes = (scopes: Scopes): string[] =>
  Object.keys(scopes).filter((scope) => !Object.hasOwn(personal, scope))

/** Returns the `names` that are scopes of the service. */
export function knownScopes(scopes: Scopes, names: readonly string[]): string[] {
  return names.filter((name) => Object.hasOwn(scopes, name))
}

/** Returns the `names` that are not scopes of the service. */
export function unknownScopes(scopes: Scopes, names: readonly string[]): string[] {
  return names.filter((name) => !Object.hasOwn(scopes, name))
}

const adminScopes: readonly string[] = ['users:read:full', 'users:write', 'audit:read', 'admin']

/**
 * Returns whether a user with this role can grant the scope to a client. Scopes that the role cannot grant are omitted
 * from the consent.
 */
export function isGrantable(role: 'user' | 'admin', scope: string): boolean {
  return role === 'admin' || !adminScopes.includes(scope)
}

/** Returns the scopes of a space-separated list that a user with this role can grant. */
export const grantableScopes = (role: 'user' | 'admin', scopes: string): string =>
  scopes
    .split(' ')
    .filter((scope) => isGrantable(role, scope))
    .join(' ')

/** Returns a token's effective scopes: the scopes that were granted to the token and that its client still has. */
export function intersectScopes(granted: string, ofClient: string): string {
  const allowed = ofClient.split(' ')
  return granted
    .split(' ')
    .filter((name) => allowed.includes(name))
    .join(' ')
}
