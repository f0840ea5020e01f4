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

/** Everything needed to verify presented tokens and store their records. */
interface Presented {
  read: ReadAccessToken
  /** Returns undefined if the API would no longer accept the token. */
  standingNow: (claims: AccessTokenClaims) => Promise<object | undefined>
  adapter: AdapterFactory
  /** Returns the current time in ms since the epoch. */
  now: () => number
}

/** The id used in place of an invalid token; no record has this id. */
const unknown = '-'

/**
 * Returns a hook that sets the `typ` of each new JWT access token and stores a record under its `jti`, so that the
 * token can be introspected, and revoked individually or with its grant. Client-credentials tokens have no grant; they
 * are recorded only when first introspected or revoked, so that issuing them costs no write.
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
 * Allows JWT access tokens to be introspected (RFC 7662) and revoked (RFC 7009), although the provider supports only
 * opaque tokens. On these paths, replaces a valid JWT with the id of its record, and an invalid JWT with an id that has
 * no record.
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

async function recordId(token: string, { read, standingNow, adapter, now }: Presented): Promise<string> {
  const claims = await read(token, now()).catch(() => undefined)
  if (!claims?.jti || (await standingNow(claims)) === undefined) return unknown
  if (claims.sub === claims.client_id || claims.kid === null) await recordPresented(token, adapter, now())
  return claims.jti
}

/**
 * Records a verified token that was not recorded when issued: a client-credentials token, or a token signed with the
 * shared secret. An earlier revocation stays in effect.
 */
async function recordPresented(token: string, adapter: AdapterFactory, nowMs: number): Promise<void> {
  const { jti = '', exp = 0, iat, aud, scope, client_id: clientId, sub } = decodeJwt<{ client_id: string }>(token)
  const isOwn = sub === clientId
  const kind = isOwn ? 'ClientCredentials' : 'AccessToken'
  const owner = isOwn ? { clientId } : { clientId, accountId: sub }
  const record = { kind, jti, ...owner, aud, scope, iat, exp, extra: { sub } }
  await adapter(kind).upsert(jti, record as AdapterPayload, Math.max(1, exp - Math.floor(nowMs / 1_000)))
}

/**
 * Returns whether the request contained the token itself. For an access token, this is the full JWT, not just its
 * `jti`.
 */
export function isPresented(ctx: KoaContextWithOIDC, token: { kind: string }): boolean {
  return token.kind === 'RefreshToken' || ctx.state.presentedJwt === true
}

/** `generateTokenId` is missing from oidc-provider's types. */
interface MakesId {
  generateTokenId: () => string
}

/**
 * Derives each new refresh token from its predecessor with a keyed digest. Although tokens are stored only as hashes,
 * every node therefore returns the same successor if a refresh is repeated within the grace period.
 */
export function deriveSuccessors(provider: Provider, sealer: Sealer): void {
  const model = provider.RefreshToken.prototype as typeof provider.RefreshToken.prototype & MakesId
  const generate = model.generateTokenId
  model.generateTokenId = function () {
    const replaced = Provider.ctx?.oidc.entities.RotatedRefreshToken
    return replaced ? sealer.digest(replaced.jti, 'refresh_token') : generate.call(this)
  }
}
