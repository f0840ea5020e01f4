import { timingSafeEqual } from 'node:crypto'
import Provider from 'oidc-provider'
import type { Sealer } from '../db/seal.ts'
import { accessTokenReader } from './access-tokens.ts'
import { type Api, allowClientCredentials } from './client-credentials.ts'
import { secretPlace } from './clients.ts'
import { type AuthorizationServerOptions, configuration, endpoints } from './configuration.ts'
import { handleFailures } from './failures.ts'
import { presentByRecord } from './issued.ts'

/** Makes the OAuth 2.0 and OpenID Connect server; it prints nothing, and trusts no Host or forwarding header. */
export function authorizationServer(options: AuthorizationServerOptions): Provider {
  const { issuer, audience, db, sealer, now, report } = options
  const scope = Object.keys(options.scopes).join(' ')
  const api: Api = { audience, scope, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }
  const provider = new Provider(issuer, configuration(options, api))
  answerAs(provider, new URL(issuer))
  compareDigests(provider, sealer)
  allowClientCredentials(provider, api)
  leaveCorsAlone(provider)
  handleFailures(provider, db.engine, report)
  const jwtEndpoints = [endpoints.introspection, endpoints.revocation]
  provider.use(presentByRecord(jwtEndpoints, accessTokenReader({ issuer, audience, keys: options.keys }), now))
  return provider
}

/** Whatever a request says about its host and scheme: the server is reached at its issuer, and at nothing else. */
function answerAs(provider: Provider, { origin, protocol }: URL): void {
  Object.defineProperties(provider.request, {
    protocol: { get: () => protocol.slice(0, -1) },
    href: {
      get(this: { path: string }) {
        return `${origin}${this.path}`
      },
    },
  })
}

/** A client's secret is kept as a digest, so the one presented is digested before the two are compared. */
function compareDigests(provider: Provider, sealer: Sealer): void {
  provider.Client.prototype.compareClientSecret = function (presented) {
    const kept = Buffer.from(this.clientSecret ?? '')
    const digest = Buffer.from(sealer.digest(presented, secretPlace(this.clientId)))
    return digest.length === kept.length && timingSafeEqual(digest, kept)
  }
}

/** CORS is the service's own policy and was applied before; a header of that family makes the provider add none. */
function leaveCorsAlone(provider: Provider): void {
  const family = 'access-control-'
  const placeholder = `${family}max-age`
  provider.use(async (ctx, next) => {
    const applied = ctx.res.getHeaderNames().some((name) => name.startsWith(family))
    if (!applied) ctx.set(placeholder, '0')
    await next()
    if (!applied) ctx.remove(placeholder)
  })
}
