import { buffer } from 'node:stream/consumers'
import { decodeJwt } from 'jose'
import Provider, {
  type AccessToken,
  type AdapterFactory,
  type AdapterPayload,
  type ClientCredentials,
  type JWTStructured,
  type KoaContextWithOIDC,
} from 'oidc-provider'
import type { Sealer } from '../../storage/encryption.ts'
import type { AccessTokenClaims, ReadAccessToken } from '../tokens/access-tokens.ts'
import { withBody } from './http/http-bodies.ts'

type Middleware = Parameters<Provider['use']>[0]

/** Verifies presented tokens and stores their records. */
interface Presented {
  read: ReadAccessToken
  /** Undefined for a token that the API would no longer accept. */
  scopeNow: (claims: AccessTokenClaims) => Promise<string | undefined>
  adapter: AdapterFactory
  /** Milliseconds since the epoch. */
  now: () => number
}

/** The id passed for a token of another issuer; no record has it. */
const unknown = '-'

/**
 * Completes each JWT access token when it is issued: sets its `typ` and stores a record under its `jti`, which allows
 * introspection, and revocation alone or with its grant. Client-credentials tokens have no grant: they are recorded when
 * first presented, which hardly any ever is, and cost no write until then.
 */
export function storeIssuedToken(adapter: AdapterFactory, typ: string) {
  return async (
    _ctx: KoaContextWithOIDC,
    token: AccessToken | ClientCredentials,
    jwt: JWTStructured,
  ): Promise<void> => {
    jwt.header = { ...jwt.header, typ }
    if (token.kind === 'ClientCredentials') return
    const { iat, exp, sub } = jwt.payload as { iat: number; exp: number; sub: string }
    const record = { ...token, iat, exp, extra: { sub }, format: undefined }
    await adapter(token.kind).upsert(token.jti, record, exp - iat)
  }
}

/**
 * Allows JWT access tokens to be introspected (RFC 7662) and revoked (RFC 7009); the provider supports only opaque ones. On
 * these paths it replaces a valid JWT by its record's id, any other by an id without a record.
 */
export function introspectJwt(paths: readonly string[], presented: Presented): Middleware {
  const replace: Middleware = async (ctx, next) => {
    const form = new URLSearchParams((await buffer(ctx.req)).toString())
    const tokens = form.getAll('token')
    if (tokens.length === 1 && tokens[0]?.includes('.')) {
      const id = await recordId(tokens[0], presented)
      ctx.state.presentedJwt = id !== unknown
      form.set('token', id)
    }
    ctx.req = ctx.request.req = withBody(ctx.req, Buffer.from(form.toString()))
    await next()
  }
  return (ctx, next) => (ctx.method === 'POST' && paths.includes(ctx.path) ? replace(ctx, next) : next())
}

async function recordId(token: string, { read, scopeNow, adapter, now }: Presented): Promise<string> {
  const claims = await read(token, now()).catch(() => undefined)
  if (!claims?.jti || (await scopeNow(claims)) === undefined) return unknown
  if (claims.sub === claims.client_id || claims.kid === null) await recordPresented(token, adapter, now())
  return claims.jti
}

/**
 * Records a verified token that was not recorded when issued: a client-credentials token, or one signed with the shared
 * secret. An earlier revocation stays in effect.
 */
async function recordPresented(token: string, adapter: AdapterFactory, nowMs: number): Promise<void> {
  const { jti = '', exp = 0, iat, aud, scope, client_id: clientId, sub } = decodeJwt<{ client_id: string }>(token)
  const isOwn = sub === clientId
  const kind = isOwn ? 'ClientCredentials' : 'AccessToken'
  const whose = isOwn ? { clientId } : { clientId, accountId: sub }
  const record = { kind, jti, ...whose, aud, scope, iat, exp, extra: { sub } }
  await adapter(kind).upsert(jti, record as AdapterPayload, Math.max(1, exp - Math.floor(nowMs / 1_000)))
}

/** Whether a record was requested with the token itself: an access token by its JWT, never by its bare `jti`. */
export function isPresented(ctx: KoaContextWithOIDC, token: { kind: string }): boolean {
  return token.kind === 'RefreshToken' || ctx.state.presentedJwt === true
}

/** Missing from oidc-provider's types. */
interface MakesId {
  generateTokenId: () => string
}

/**
 * Derives each refresh token from the one it replaces by a keyed digest: repeating a refresh within the grace period returns
 * the same successor, on every node, although no token is stored in a usable form.
 */
export function deriveSuccessors(provider: Provider, sealer: Sealer): void {
  const model = provider.RefreshToken.prototype as typeof provider.RefreshToken.prototype & MakesId
  const generate = model.generateTokenId
  model.generateTokenId = function () {
    const replaced = Provider.ctx?.oidc.entities.RotatedRefreshToken
    return replaced ? sealer.digest(replaced.jti, 'refresh_token') : generate.call(this)
  }
}
