import { type FieldError, Problem } from '../http/problem.ts'
import { isRedirectUri } from './redirect-uris.ts'
import { type Scopes, unknownScopes } from './scopes.ts'

/** What is said of a client to register it. */
export interface NewClient {
  /** Made when not given: `cli_` and 128 random bits. */
  id?: string
  name: string
  scopes: readonly string[]
  grants: readonly string[]
  redirectUris?: readonly string[]
  /** Made when not given; null registers a public client, which has none (RFC 6749 §2.1). */
  secret?: string | null
}

const grantTypes = ['client_credentials', 'authorization_code', 'refresh_token']
const idPattern = /^[A-Za-z0-9._~-]{1,128}$/
const namePattern = /^\P{C}{1,200}$/u
const secretPattern = /^[\x20-\x7e]{1,256}$/

/** Throws VALIDATION_ERROR that names every field which breaks a rule, and the rule. */
export function refuseWrong(client: Required<NewClient>, known: Scopes): void {
  const errors = mistakes(client, known)
  const detail = errors.map(({ field, message }) => `${field} ${message}`).join('; ')
  if (errors.length > 0) throw new Problem('VALIDATION_ERROR', detail, { errors })
}

function mistakes(
  { id, name, secret, scopes, grants, redirectUris }: Required<NewClient>,
  known: Scopes,
): FieldError[] {
  const unknown = unknownScopes(known, scopes)
  const unknownGrants = grants.filter((grant) => !grantTypes.includes(grant))
  const wrongUris = redirectUris.filter((uri) => !isRedirectUri(uri))
  const isPublic = secret === null
  const rules: [broken: boolean, field: string, message: string][] = [
    [!idPattern.test(id), 'id', 'must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ -'],
    [!namePattern.test(name), 'name', 'must be 1 to 200 characters without control characters'],
    [!isPublic && !secretPattern.test(secret), 'secret', 'must be 1 to 256 printable ASCII characters'],
    [scopes.length === 0, 'scopes', 'must name at least one scope'],
    [unknown.length > 0, 'scopes', `must not name ${unknown}; the scopes are ${Object.keys(known).join(', ')}`],
    [grants.length === 0, 'grants', 'must name at least one grant type'],
    [
      unknownGrants.length > 0,
      'grants',
      `must not name ${unknownGrants}; the grant types are ${grantTypes.join(', ')}`,
    ],
    [isPublic && grants.includes('client_credentials'), 'grants', 'must not name client_credentials without a secret'],
    [wrongUris.length > 0, 'redirectUris', `must be https, loopback http or private-use addresses, not ${wrongUris}`],
    [redirectUris.length === 0 && grants.includes('authorization_code'), 'redirectUris', 'must hold an address'],
  ]
  return rules.filter(([broken]) => broken).map(([, field, message]) => ({ field, message }))
}
