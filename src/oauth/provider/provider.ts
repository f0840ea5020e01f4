import { decodeProtectedHeader } from 'jose'
import Provider, { errors, type KoaContextWithOIDC } from 'oidc-provider'
import type { Frame } from '../../http/pages/layout.ts'
import type { SigningAlgorithm } from '../keys/key-algorithms.ts'
import { SigningKey } from '../keys/signing-key.ts'
import { loggedOutBody, loggedOutTitle } from '../pages/logout.ts'
import { accessTokenReader } from '../tokens/access-tokens.ts'
import { intersectScopes } from '../tokens/scopes.ts'
import { standingFinder } from '../tokens/verify.ts'
import { records } from './adapter.ts'
import { auditTokens } from './audit-tokens.ts'
import { cacheClients, cacheSecretChecks } from './client-cache.ts'
import { type Api, allowClientCredentials } from './client-credentials.ts'
import { type AuthorizationServerOptions, configuration } from './configuration.ts'
import { assertSafeSettings } from './configuration-checks.ts'
import { endpoints } from './http/endpoints.ts'
import { errorRenderer, handleFailures, showPage } from './http/errors.ts'
import { deriveSuccessors, introspectJwt } from './jwt-records.ts'
import { allowPassword } from './password-grant.ts'

/**
 * Creates the OAuth 2.0 and OpenID Connect server. It prints nothing and trusts neither Host nor forwarding headers.
 */
export function authorizationServer(options: AuthorizationServerOptions): Provider {
  const { issuer, audience, db, sealer, now, report, frame } = options
  const scope = Object.keys(options.scopes).join(' ')
  const signing = options.keys.jwks.keys.map((jwk) => new SigningKey(jwk))
  const alg = signing[0]?.alg as SigningAlgorithm
  const api: Api = { audience, scope, accessTokenFormat: 'jwt', jwt: { sign: { alg } } }
  const settings = configuration(options, api, signing)
  assertSafeSettings(settings)
  const provider = new Provider(issuer, settings)
  fixOrigin(provider, new URL(issuer))
  cacheClients(provider, db)
  cacheSecretChecks(provider, sealer)
  mapErrors(provider)
  deriveSuccessors(provider, sealer)
  narrowScopes(provider)
  revokeOnLogout(provider)
  skipLogoutPrompt(provider, frame)
  typeIdTokens(provider, signing[0] as SigningKey)
  acceptEarlierHints(provider, signing)
  allowClientCredentials(provider, api)
  allowPassword(provider, api, options)
  suppressCors(provider)
  setPagePolicy(provider)
  handleFailures(provider, db.engine, errorRenderer(frame), report)
  if (options.audit) auditTokens(provider, options.audit, options.address)
  const jwtEndpoints = [endpoints.introspection, endpoints.revocation]
  const read = accessTokenReader({ issuer, audience, keys: options.keys, sharedSecret: options.sharedSecret ?? null })
  const presented = { read, standingNow: standingFinder(options), adapter: records({ db, now }), now }
  provider.use(introspectJwt(jwtEndpoints, presented))
  return provider
}

/** Makes the server ignore the host and scheme of requests; its URL is always the issuer. */
function fixOrigin(provider: Provider, { origin, protocol }: URL): void {
  Object.defineProperties(provider.request, {
    protocol: { get: () => protocol.slice(0, -1) },
    href: {
      get(this: { path: string }) {
        return `${origin}${this.path}`
      },
    },
  })
}

/** The provider's error messages for requests without a client id or with an unknown authentication method. */
const noClient = ['no client authentication mechanism provided', 'invalid authorization header value format']
const clientEndpoints = [endpoints.token, endpoints.introspection, endpoints.revocation]
const notAllowed = 'requested grant type is not allowed for this client'

/**
 * Maps missing client authentication, and grants that the client is not registered for, to the errors defined in RFC
 * 6749 §4.1.2.1 and §5.2.
 */
function mapErrors(provider: Provider): void {
  provider.Client.prototype.responseTypeAllowed = function (type) {
    if (this.responseTypes?.includes(type)) return true
    throw type === 'code' ? new errors.UnauthorizedClient() : new errors.UnsupportedResponseType()
  }
  provider.use(async (ctx, next) => {
    await next()
    const body = ctx.body as { error_description?: string } | undefined
    if (clientEndpoints.includes(ctx.path) && noClient.includes(body?.error_description ?? '')) {
      ctx.status = 401
      ctx.set('WWW-Authenticate', `Basic realm="${provider.issuer}"`)
      ctx.body = { ...body, error: 'invalid_client' }
    }
    if (ctx.path === endpoints.token && body?.error_description === notAllowed) {
      ctx.body = { error: 'unauthorized_client', error_description: notAllowed }
    }
  })
}

/** Revokes a client's access on logout, unless the user granted `offline_access`. */
function revokeOnLogout(provider: Provider): void {
  provider.on('authorization.success', ({ oidc: { client, session, entities } }) => {
    const scopes = entities.AuthorizationCode?.scope?.split(' ')
    if (client && session && scopes && !scopes.includes('offline_access')) {
      Object.assign(session.authorizationFor(client.clientId), { persistsLogout: false })
    }
  })
}

/** Skips the logout prompt if no user is logged in; otherwise, the provider would send a self-submitting form. */
function skipLogoutPrompt(provider: Provider, frame: Frame): void {
  const { end_session } = endpoints
  provider.use(async (ctx, next) => {
    await next()
    const { oidc } = ctx as KoaContextWithOIDC
    if (ctx.path !== end_session || ctx.status !== 200 || oidc.session?.accountId) return
    showPage(ctx as KoaContextWithOIDC, frame(loggedOutTitle, loggedOutBody))
    // The provider has already rejected or removed an unregistered URI.
    const target = oidc.params?.post_logout_redirect_uri
    if (typeof target !== 'string') return
    const url = new URL(target)
    if (typeof oidc.params?.state === 'string') url.searchParams.set('state', oidc.params.state)
    ctx.status = 303
    ctx.set('Location', url.href)
  })
}

/**
 * Suppresses the provider's CORS headers, because the service has already applied its own policy. The provider adds
 * none if it finds a CORS header on the response.
 */
function suppressCors(provider: Provider): void {
  const family = 'access-control-'
  const placeholder = `${family}max-age`
  provider.use(async (ctx, next) => {
    const applied = ctx.res.getHeaderNames().some((name) => name.startsWith(family))
    if (!applied) ctx.set(placeholder, '0')
    await next()
    if (!applied) ctx.remove(placeholder)
  })
}

/**
 * Lets the provider's own pages submit a form with a script (`form_post`); the provider adds the script's hash to the
 * CSP.
 */
function setPagePolicy(provider: Provider): void {
  const { authorization, end_session } = endpoints
  provider.use((ctx, next) => {
    const isPage = ctx.path.startsWith(authorization) || ctx.path.startsWith(end_session)
    if (isPage)
      ctx.set('Content-Security-Policy', "default-src 'none'; script-src; base-uri 'none'; frame-ancestors 'none'")
    return next()
  })
}

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** Adds `typ: JWT` to the ID token header (RFC 7519 §5.1), as the API contract requires; the provider omits it. */
function typeIdTokens(provider: Provider, key: SigningKey): void {
  const { prototype } = provider.IdToken
  const issue = prototype.issue
  prototype.issue = async function (context) {
    const token = await issue.call(this, context)
    if (context.use !== 'idtoken') return token
    const [header = '', payload = ''] = token.split('.')
    const { alg, ...fields } = JSON.parse(Buffer.from(header, 'base64url').toString())
    const input = `${encoded({ alg, typ: 'JWT', ...fields })}.${payload}`
    return `${input}.${(await key.sign(Buffer.from(input))).toString('base64url')}`
  }
}

/**
 * Accepts an `id_token_hint` signed with the algorithm of any key, not only of the current key (OpenID Connect
 * RP-Initiated Logout §2).
 */
function acceptEarlierHints({ IdToken }: Provider, keys: readonly SigningKey[]): void {
  const validate = IdToken.validate.bind(IdToken)
  IdToken.validate = (token, client) => {
    const { alg } = decodeProtectedHeader(token)
    const isKnown = keys.some((key) => key.alg === alg)
    return validate(token, isKnown ? Object.create(client, { idTokenSignedResponseAlg: { value: alg } }) : client)
  }
}

/**
 * When a code or a refresh token is exchanged, omits the granted scopes that the client has since lost; the response
 * lists the remaining scopes (RFC 6749 §5.1). The record keeps the granted scopes, because the client may regain them.
 */
export function narrowScopes({ AuthorizationCode, RefreshToken }: Provider): void {
  for (const { prototype } of [AuthorizationCode, RefreshToken]) {
    Object.defineProperty(prototype, 'scopes', {
      get(this: { scope?: string }) {
        const { client } = (Provider.ctx as NonNullable<typeof Provider.ctx>).oidc
        const scope = intersectScopes(this.scope ?? '', client?.scope ?? '')
        if (scope === '') throw new errors.InvalidScope('the client has lost all of the granted scopes', '')
        return new Set(scope.split(' '))
      },
    })
  }
}
