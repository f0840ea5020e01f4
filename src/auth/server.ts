import { timingSafeEqual } from 'node:crypto'
import Provider, { type Configuration, errors, type FindAccount, type KoaContextWithOIDC } from 'oidc-provider'
import type { Database } from '../db/open.ts'
import type { Sealer } from '../db/seal.ts'
import { accessTokenReader } from './access-tokens.ts'
import { type Api, allowClientCredentials, namesApi } from './client-credentials.ts'
import { secretPlace } from './clients.ts'
import { handleFailures, renderError } from './failures.ts'
import { isPresented, presentByRecord, recordIssued } from './issued.ts'
import type { SigningKeys } from './keys.ts'
import { page } from './page.ts'
import { records } from './records.ts'
import { allScopes } from './scopes.ts'

export interface AuthorizationServerOptions {
  /** The origin it is reached at, such as `https://localhost:8443`: every URL it makes starts with it. */
  issuer: string
  /** What access tokens are for: the origin of the API. */
  audience: string
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

const day = 86_400

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

/** Makes the OAuth 2.0 and OpenID Connect server; it prints nothing, and trusts no Host or forwarding header. */
export function authorizationServer(options: AuthorizationServerOptions): Provider {
  const { issuer, audience, db, sealer, now, report } = options
  const api: Api = { audience, scope: allScopes.join(' '), accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }
  const provider = new Provider(issuer, configuration(options, api))
  answerAs(provider, new URL(issuer))
  compareDigests(provider, sealer)
  allowClientCredentials(provider, api)
  handleFailures(provider, db.engine, report)
  leaveCorsAlone(provider)
  const jwtEndpoints = [endpoints.introspection, endpoints.revocation]
  provider.use(presentByRecord(jwtEndpoints, accessTokenReader({ issuer, audience, keys: options.keys }), now))
  return provider
}

function configuration(options: AuthorizationServerOptions, api: Api): Configuration {
  const { keys, accessTokenSeconds, accessTokenType = 'JWT', findAccount = () => undefined } = options
  const adapter = records(options)
  return {
    adapter,
    jwks: keys.jwks as Configuration['jwks'],
    routes: endpoints,
    cookies: { keys: keys.cookieKeys },
    scopes: allScopes,
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
      logoutSource: (ctx, form) => showPage(ctx, 'Log out?', `${form}<button form="op.logoutForm" name="logout" value="yes">Log out</button>`),
      postLogoutSuccessSource: (ctx) => showPage(ctx, 'You are logged out', ''),
    },
  }
}
