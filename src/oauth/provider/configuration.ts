import type { KeyObject } from 'node:crypto'
import { type Client, type ClientAuthMethod, type Configuration, errors, type KoaContextWithOIDC } from 'oidc-provider'
import type { Audit } from '../../audit/buffer.ts'
import type { Frame } from '../../http/pages/layout.ts'
import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import type { SigningAlgorithm } from '../keys/key-algorithms.ts'
import type { SigningKey } from '../keys/signing-key.ts'
import type { SigningKeys } from '../keys/signing-keys.ts'
import { loggedOutBody, loggedOutTitle, logoutBody, logoutTitle } from '../pages/logout.ts'
import type { RevocationEpoch } from '../tokens/revocation-epoch.ts'
import { intersectScopes, type Scopes } from '../tokens/scopes.ts'
import { accountFinder } from '../users/accounts.ts'
import { records } from './adapter.ts'
import { ownMetadata } from './client-adapter.ts'
import { type Api, namesApi } from './client-credentials.ts'
import { grantLoader } from './consent.ts'
import { endpoints, interactionPath } from './http/endpoints.ts'
import { errorRenderer, showPage } from './http/errors.ts'
import { promptPolicy } from './interaction-policy.ts'
import { isPresented, storeIssuedToken } from './jwt-records.ts'
import type { PasswordGrantOptions } from './password-grant.ts'

export interface AuthorizationServerOptions {
  /** The public origin, such as `https://localhost:8443`, on which all generated URLs are based. */
  issuer: string
  /** The audience of access tokens: the API's origin. */
  audience: string
  /** All scopes of the service. */
  scopes: Scopes
  /** Fields of users that userinfo adds for the scope `profile`. */
  userinfo?: readonly string[]
  db: Database
  sealer: Sealer
  keys: SigningKeys
  /** Returns the current time in ms since the epoch. */
  now: () => number
  accessTokenSeconds: number
  /** Verifies HS256 tokens created elsewhere; if absent, HS256 tokens are rejected. */
  sharedSecret?: KeyObject | null
  /** The `typ` of access tokens: `JWT`, or `at+jwt` as defined by RFC 9068. */
  accessTokenType?: 'JWT' | 'at+jwt'
  login: PasswordGrantOptions['login']
  address: PasswordGrantOptions['address']
  frame: Frame
  revocations?: RevocationEpoch
  /** Audits granted, rejected and revoked tokens. */
  audit?: Pick<Audit, 'note' | 'repeated' | 'tally'>
  /** Called with each error not caused by the client. */
  report: (error: unknown) => void
}

const clientAuthMethods: ClientAuthMethod[] = ['client_secret_basic', 'client_secret_post', 'none']

/**
 * Returns the oidc-provider configuration. Explicitly sets every option whose default makes the provider print a
 * notice.
 */
export function configuration(options: AuthorizationServerOptions, api: Api, signing: SigningKey[]): Configuration {
  const { db, issuer, keys, frame, accessTokenSeconds, accessTokenType = 'JWT', userinfo = [] } = options
  const adapter = records(options)
  // The algorithms of the current key and of previous and future keys, because clients cache this list.
  const algorithms = [...new Set(signing.map(({ alg }) => alg as SigningAlgorithm))]
  return {
    adapter,
    jwks: { keys: signing },
    routes: endpoints,
    cookies: cookies(keys.cookieKeys, issuer),
    scopes: Object.keys(options.scopes),
    // For every client, ID tokens contain the user's name and e-mail address; see `accountFinder`.
    claims: { openid: ['sub', 'name', 'email', 'auth_time'], profile: ['name', ...userinfo], email: ['email'] },
    conformIdTokenClaims: false,
    responseTypes: ['code', 'id_token'],
    clientAuthMethods,
    extraClientMetadata: { properties: ownMetadata },
    // The stored secret is a digest, not a key, and must not sign or encrypt anything.
    enabledJWA: { idTokenSigningAlgValues: algorithms, clientAuthSigningAlgValues: [] },
    clientDefaults: { id_token_signed_response_alg: algorithms[0] as SigningAlgorithm },
    // If `redirect_uri` could be omitted, a code could be redeemed without it (RFC 6749 §4.1.3).
    allowOmittingSingleRegisteredRedirectUri: false,
    pkce: { required: (_ctx, client) => client.clientAuthMethod === 'none' },
    formats: { customizers: { jwt: storeIssuedToken(adapter, accessTokenType) } },
    interactions: { policy: promptPolicy(), url: (_ctx, { uid }) => `${interactionPath}/${uid}` },
    discovery: {
      userinfo_endpoint: issuer + endpoints.userinfo,
      ui_locales_supported: ['en'],
      // If this is omitted, clients assume only client_secret_basic (RFC 8414 §2).
      revocation_endpoint_auth_methods_supported: clientAuthMethods,
      introspection_endpoint_auth_methods_supported: clientAuthMethods,
    },
    features: features(api, frame),
    ttl: lifetimes(accessTokenSeconds),
    issueRefreshToken: (_ctx, client) => client.grantTypeAllowed('refresh_token'),
    // If the client has lost all granted scopes, reading `scopes` throws `invalid_scope` before the token is consumed.
    rotateRefreshToken: (ctx) => (ctx.oidc.entities.RefreshToken?.scopes.size ?? 0) > 0,
    expiresWithSession: () => false,
    findAccount: accountFinder(db),
    loadExistingGrant: grantLoader(db),
    renderError: errorRenderer(frame),
  }
}

/**
 * Returns the cookie settings. The name prefixes prevent other hosts in the domain from setting the cookies (RFC
 * 6265bis §4.1.3); `__Host-` requires the path `/`. Over plain HTTP, which is for local use only, browsers accept
 * neither the prefixes nor `Secure`.
 */
function cookies(keys: string[], issuer: string): Configuration['cookies'] {
  const secure = issuer.startsWith('https:')
  const options = { httpOnly: true, sameSite: 'lax', secure, signed: true } as const
  const [host, path] = secure ? ['__Host-', '__Secure-'] : ['', '']
  const names = {
    session: `${host}plinth_session`,
    interaction: `${path}plinth_interaction`,
    resume: `${path}plinth_resume`,
  }
  return { keys, names, long: options, short: options }
}

function features(api: Api, frame: Frame): Configuration['features'] {
  return {
    devInteractions: { enabled: false },
    dPoP: { enabled: false },
    pushedAuthorizationRequests: { enabled: false },
    clientCredentials: { enabled: true },
    externalSigningSupport: { enabled: true, ack: 'experimental-01' },
    // The service has its own endpoint, because the provider's endpoint rejects tokens with an audience.
    userinfo: { enabled: false },
    introspection: { enabled: true, allowedPolicy: mayIntrospect },
    revocation: { enabled: true, allowedPolicy: mayRevoke },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => api.audience,
      useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, resource) => {
        if (!namesApi(resource, api)) throw new errors.InvalidTarget()
        return api
      },
    },
    rpInitiatedLogout: {
      enabled: true,
      logoutSource: (ctx, form) => {
        const { client, params } = ctx.oidc
        const target = params?.post_logout_redirect_uri
        const targets = typeof target === 'string' ? [target] : []
        showPage(ctx, frame(logoutTitle, logoutBody(form, client?.clientName), { targets }))
      },
      postLogoutSuccessSource: (ctx) => showPage(ctx, frame(loggedOutTitle, loggedOutBody)),
    },
  }
}

type Token = Parameters<typeof isPresented>[1] & { clientId?: string | undefined; scope?: string | undefined }

/**
 * Returns whether a client may introspect a token: its own token or, with `introspects_others`, another client's. All
 * other tokens are reported as inactive (RFC 7662 §2.2). As in the API, a revoked client's tokens are inactive, and
 * scopes that a client has lost are omitted.
 */
async function mayIntrospect(ctx: KoaContextWithOIDC, client: Client, token: Token): Promise<boolean> {
  const isOwn = token.clientId === client.clientId
  if (!(isPresented(ctx, token) && (isOwn || client.introspects_others === true))) return false
  const owner = await ctx.oidc.provider.Client.find(String(token.clientId))
  if (owner) token.scope = intersectScopes(token.scope ?? '', owner.scope ?? '')
  return owner !== undefined
}

/** Throws if the token belongs to a different client (RFC 7009 §2.1). */
function mayRevoke(ctx: KoaContextWithOIDC, client: Client, token: Token): boolean {
  if (token.clientId === client.clientId) return isPresented(ctx, token)
  throw new errors.InvalidRequest('the token was not issued to this client')
}

const hour = 3_600
const day = 24 * hour
const refreshSliding = 14 * day
const refreshAbsolute = 90 * day
const loginSeconds = 8 * hour

const secondsNow = () => Math.floor(Date.now() / 1_000)

/**
 * Returns lifetimes in seconds. A refresh token expires after 14 days, and its whole family 90 days after the first
 * token, which is issued at most 8 hours after the login. A grant outlives every refresh token issued under it.
 */
export function lifetimes(accessTokenSeconds: number): Configuration['ttl'] {
  return {
    AccessToken: accessTokenSeconds,
    ClientCredentials: accessTokenSeconds,
    IdToken: accessTokenSeconds,
    AuthorizationCode: 60,
    RefreshToken: (_ctx, { iiat }) =>
      Math.max(1, Math.min(refreshSliding, (iiat ?? secondsNow()) + refreshAbsolute - secondsNow())),
    Grant: refreshAbsolute + loginSeconds + hour,
    Session: (_ctx, { loginTs }) => Math.max(1, (loginTs ?? secondsNow()) + loginSeconds - secondsNow()),
    Interaction: hour,
  }
}
