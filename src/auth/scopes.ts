/** Every scope there is, with what it allows in plain words: shown on the consent page and in the documents. */
export const scopes = {
  openid: 'Know that it is you',
  profile: 'See your name',
  email: 'See your e-mail address',
  offline_access: 'Keep access while you are away',
  'reports:read': 'See your reports and download them',
  'reports:write': 'Create, cancel and delete reports',
  'webhooks:read': 'See your webhooks and their deliveries',
  'webhooks:write': 'Register, change and remove webhooks',
  'users:read': 'See users',
  'users:read:full': 'See users with address and phone',
  'users:write': 'Create, change and remove users',
  'products:write': 'Create, change and remove products',
  'books:write': 'Create, change and remove books',
  'audit:read': 'Read the audit log',
  admin: 'Administer the service',
} as const satisfies Record<string, string>

export type Scope = keyof typeof scopes

/** The names of all scopes, in the order they are shown. */
export const allScopes = Object.keys(scopes) as readonly Scope[]

/** The scopes about a person who logged in (OpenID Connect Core §5.4, §11). */
export const userScopes: readonly Scope[] = ['openid', 'profile', 'email', 'offline_access']

/** The scopes that guard the API itself. */
export const apiScopes = allScopes.filter((scope) => !userScopes.includes(scope))

/** The names among `names` that are no scope of ours. */
export function unknownScopes(names: readonly string[]): string[] {
  return names.filter((name) => !Object.hasOwn(scopes, name))
}
