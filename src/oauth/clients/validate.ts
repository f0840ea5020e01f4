import { type FieldError, Problem } from '../../http/problems/problem.ts'
import { type Scopes, unknownScopes } from '../tokens/scopes.ts'
import { isPrivateUse, isPublicHttps, isRedirectUri } from './redirect-uris.ts'

/** What can be set of a client, at first and later. */
export interface ClientSettings {
  name: string
  scopes: readonly string[]
  grants: readonly string[]
  redirectUris: readonly string[]
  /** Where people may be sent after they logged out (OpenID Connect RP-Initiated Logout §3.1). */
  postLogoutRedirectUris: readonly string[]
  /** The operator's own: nobody is asked for consent. */
  firstParty: boolean
  /** May be told a person's password, which the grant `password` needs. */
  trusted: boolean
  /** May ask what the tokens of other clients are worth (RFC 7662): a gateway, or an API of its own. */
  introspectsOthers: boolean
}

/** What is said of a client to register it. */
export interface NewClient extends Partial<ClientSettings> {
  /** Made when not given: `cli_` and 128 random bits. */
  id?: string
  name: string
  scopes: readonly string[]
  grants: readonly string[]
  /** Made when not given; null registers a public client, which has none (RFC 6749 §2.1). */
  secret?: string | null
}

/** Every grant type a client can have; `password` and `implicit` are deprecated (RFC 9700 §2.1.2, §2.4). */
export const grantTypes = ['client_credentials', 'authorization_code', 'refresh_token', 'password', 'implicit']
/** Those that send a person's browser back to the client. */
const redirectGrants = ['authorization_code', 'implicit']
const maxAddresses = 20
const maxAddress = 2_048
const namePattern = /^\P{C}{1,200}$/u
const secretPattern = /^[\x20-\x7e]{1,256}$/

/** The settings in full: what was not said is empty. */
export function withDefaults({ name, scopes, grants, ...rest }: NewClient): ClientSettings {
  const { redirectUris = [], postLogoutRedirectUris = [] } = rest
  const { firstParty = false, trusted = false, introspectsOthers = false } = rest
  const flags = { firstParty, trusted, introspectsOthers }
  return { name: name.trim(), scopes, grants, redirectUris, postLogoutRedirectUris, ...flags }
}

/** Throws VALIDATION_ERROR that names every field which breaks a rule, and the rule. */
export function validateClient(client: ClientSettings & { id: string; secret: string | null }, known: Scopes): void {
  const { id, secret } = client
  const identity = broken([
    [!clientIdPattern.test(id), 'id', `must be ${clientIdRule}`],
    [secret !== null && !secretPattern.test(secret), 'secret', 'must be 1 to 256 printable ASCII characters'],
  ])
  refuse([...identity, ...mistakes(client, secret === null, known)])
}

/** The same for a change of a client that is there: public or not, it stays what it is. */
export function refuseWrongSettings(settings: ClientSettings, isPublic: boolean, known: Scopes): void {
  refuse(mistakes(settings, isPublic, known))
}

function refuse(errors: FieldError[]): void {
  const detail = errors.map(({ field, message }) => `${field} ${message}`).join('; ')
  if (errors.length > 0) throw new Problem('VALIDATION_ERROR', detail, { errors })
}

type Rule = [broken: boolean, field: string, message: string]

const broken = (rules: Rule[]): FieldError[] =>
  rules.filter(([isBroken]) => isBroken).map(([, field, message]) => ({ field, message }))

function mistakes(client: ClientSettings, isPublic: boolean, known: Scopes): FieldError[] {
  const { name, scopes, grants } = client
  const unknown = unknownScopes(known, scopes)
  const unknownGrants = grants.filter((grant) => !grantTypes.includes(grant))
  return broken([
    [!namePattern.test(name), 'name', 'must be 1 to 200 characters without control characters'],
    [scopes.length === 0, 'scopes', 'must name at least one scope'],
    [unknown.length > 0, 'scopes', `must not name ${unknown}; the scopes are ${Object.keys(known).join(', ')}`],
    [grants.length === 0, 'grants', 'must name at least one grant type'],
    [
      unknownGrants.length > 0,
      'grants',
      `must not name ${unknownGrants}; the grant types are ${grantTypes.join(', ')}`,
    ],
    [isPublic && grants.includes('client_credentials'), 'grants', 'must not name client_credentials without a secret'],
    [!client.trusted && grants.includes('password'), 'grants', 'may name password only for a trusted client'],
    [isPublic && client.introspectsOthers, 'introspectsOthers', 'must not be set for a client without a secret'],
    ...addressRules(client, isPublic),
  ])
}

function addressRules({ grants, redirectUris, postLogoutRedirectUris }: ClientSettings, isPublic: boolean): Rule[] {
  const addresses: [string, readonly string[]][] = Object.entries({ redirectUris, postLogoutRedirectUris })
  const perField = addresses.flatMap(([field, uris]): Rule[] => {
    const wrong = uris.filter((uri) => uri.length > maxAddress || !isRedirectUri(uri))
    const apps = isPublic ? [] : uris.filter((uri) => isRedirectUri(uri) && isPrivateUse(uri))
    const open = grants.includes('implicit') ? uris.filter((uri) => isRedirectUri(uri) && !isPublicHttps(uri)) : []
    return [
      [wrong.length > 0, field, `must be https, loopback http or private-use addresses, not ${shown(wrong)}`],
      [apps.length > 0, field, `must not name the scheme of an app for a client with a secret: ${shown(apps)}`],
      [open.length > 0, field, `must be https addresses of other hosts for the implicit grant, not ${shown(open)}`],
      [uris.length > maxAddresses, field, `must hold ${maxAddresses} addresses at most`],
    ]
  })
  const needsAddress = grants.some((grant) => redirectGrants.includes(grant))
  return [...perField, [redirectUris.length === 0 && needsAddress, 'redirectUris', 'must hold an address']]
}

const shown = (uris: readonly string[]) => uris.map((uri) => uri.slice(0, 100))

/**
 * What a client_id looks like. Users' ids are digits: a client of such a name would be taken for the user in its tokens,
 * where `sub` is one or the other (RFC 9068 §5). Dots alone cannot stand in a path (RFC 3986 §5.2.4).
 */
export const clientIdPattern = /^(?!\d+$|\.{1,2}$)[A-Za-z0-9._~-]{1,128}$/

export const clientIdRule = '1 to 128 characters of A-Z a-z 0-9 . _ ~ -, and not digits or dots alone'
