import { type Client, type Configuration, errors, type FindAccount, type KoaContextWithOIDC } from 'oidc-provider'
import type { Database } from '../db/open.ts'
import type { Sealer } from '../db/seal.ts'
import { type Api, namesApi } from './client-credentials.ts'
import { renderError } from './failures.ts'
import { isPresented, recordIssued } from './issued.ts'
import type { SigningKeys } from './keys.ts'
import { page, pagePolicy } from './page.ts'
import { records } from './records.ts'
import type { Scopes } from './scopes.ts'

export interface AuthorizationServerOptions {
  /** The origin it is reached at, such as `https://localhost:8443`: every URL it makes starts with it. */
  issuer: string
  /** What access tokens are for: the origin of the API. */
  audience: string
  /** Every scope of the service. */
  scopes: Scopes
  db: Database
  sealer: Sealer
  keys: SigningKeys
  /** Milliseconds since the epoch. */
  now: () => number
  accessTokenSeconds: number
  /** The `typ` of access tokens: `JWT`, or `at+jwt` for RFC 9068. */
  accessTokenType?: 'JWT' | 'at+jwt'
  /** Finds who logged in; without it nobody can. */
  findAccount?: FindAccount
  /** Is told of each failure that is not the caller's. */
  report: (error: unknown) => void
}

/** The paths of the endpoints, by oidc-provider's names for them. */
export const endpoints = {
  authorization: '/oauth/authorize',
  token: '/oauth/token',
  revocation: '/oauth/revoke',
  introspection: '/oauth/introspect',
  userinfo: '/oauth/userinfo',
  jwks: '/oauth/jwks',
  end_session: '/oauth/logout',
}

const hour = 3_600
const day = 24 * hour

/** All that oidc-provider is told; where it prints a notice about a default of its own, ours stands here instead. */
export function configuration(options: AuthorizationServerOptions, api: Api): Configuration {
  const { keys, accessTokenSeconds, accessTokenType = 'JWT', findAccount = () => undefined } = options
  const adapter = records(options)
  return {
    adapter,
    jwks: keys.jwks as Configuration['jwks'],
    routes: endpoints,
    cookies: { keys: keys.cookieKeys },
    scopes: Object.keys(options.scopes),
    claims: { openid: ['sub'], profile: ['name'], email: ['email'] },
    conformIdTokenClaims: false,
    responseTypes: ['code'],
    clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'none'],
    // The kept secret is a digest, no key: nothing may be signed or encrypted with it.
    enabledJWA: { idTokenSigningAlgValues: ['RS256'], clientAuthSigningAlgValues: [] },
    pkce: { required: (_ctx, client) => client.clientAuthMethod === 'none' },
    formats: { customizers: { jwt: recordIssued(adapter, accessTokenType) } },
    features: features(api),
    ttl: lifetimes(accessTokenSeconds),
    findAccount,
    renderError,
  }
}

function features(api: Api): Configuration['features'] {
  return {
    devInteractions: { enabled: false },
    dPoP: { enabled: false },
    pushedAuthorizationRequests: { enabled: false },
    clientCredentials: { enabled: true },
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
      logoutSource: (ctx, form) =>
        showPage(ctx, 'Log out?', `${form}<button form="op.logoutForm" name="logout" value="yes">Log out</button>`),
      postLogoutSuccessSource: (ctx) => showPage(ctx, 'You are logged out', ''),
    },
  }
}

function lifetimes(accessTokenSeconds: number): Configuration['ttl'] {
  return {
    AccessToken: accessTokenSeconds,
    ClientCredentials: accessTokenSeconds,
    IdToken: accessTokenSeconds,
    AuthorizationCode: 60,
    RefreshToken: 14 * day,
    Grant: 90 * day,
    Session: 8 * hour,
    Interaction: hour,
  }
}

type Token = Parameters<typeof isPresented>[1] & { clientId?: string | undefined }

function mayIntrospect(ctx: KoaContextWithOIDC, client: Client, token: Token): boolean {
  return isPresented(ctx, token) && (client.clientAuthMethod !== 'none' || token.clientId === client.clientId)
}

/** Refuses, and says so, where the token is another client's (RFC 7009 §2.1). */
function mayRevoke(ctx: KoaContextWithOIDC, client: Client, token: Token): boolean {
  if (token.clientId === client.clientId) return isPresented(ctx, token)
  throw new errors.InvalidRequest('the token was not issued to this client')
}

function showPage(ctx: KoaContextWithOIDC, title: string, body: string): void {
  ctx.set('Content-Security-Policy', pagePolicy)
  ctx.body = page(title, body)
}
