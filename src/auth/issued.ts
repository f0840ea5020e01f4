import { buffer } from 'node:stream/consumers'
import type Provider from 'oidc-provider'
import type { AccessToken, AdapterFactory, ClientCredentials, JWTStructured, KoaContextWithOIDC } from 'oidc-provider'
import type { ReadAccessToken } from './access-tokens.ts'
import { withBody } from './message.ts'

type Middleware = Parameters<Provider['use']>[0]

/** Stands for a token that is none of ours; no record has this id. */
const unknown = '-'

/**
 * Completes each JWT access token as it is issued: its `typ`, and a record under its `jti`, with which it can be
 * introspected, revoked, and revoked together with its grant.
 */
export function recordIssued(adapter: AdapterFactory, typ: string) {
  return async (
    _ctx: KoaContextWithOIDC,
    token: AccessToken | ClientCredentials,
    jwt: JWTStructured,
  ): Promise<void> => {
    jwt.header = { ...jwt.header, typ }
    const { iat, exp, sub } = jwt.payload as { iat: number; exp: number; sub: string }
    const record = { ...token, iat, exp, extra: { sub }, format: undefined }
    await adapter(token.kind).upsert(token.jti, record, exp - iat)
  }
}

/**
 * Lets JWT access tokens be introspected (RFC 7662) and revoked (RFC 7009), which the provider does for opaque ones only:
 * at these paths a JWT that is ours is replaced by its record's id, any other by an id that nothing has.
 */
export function presentByRecord(paths: readonly string[], read: ReadAccessToken, now: () => number): Middleware {
  return async (ctx, next) => {
    if (ctx.method === 'POST' && paths.includes(ctx.path)) {
      const form = new URLSearchParams((await buffer(ctx.req)).toString())
      const tokens = form.getAll('token')
      if (tokens.length === 1 && tokens[0]?.includes('.')) {
        ctx.state.presentedJwt = true
        form.set('token', await recordId(tokens[0], read, now()))
      }
      ctx.req = ctx.request.req = withBody(ctx.req, Buffer.from(form.toString()))
    }
    await next()
  }
}

async function recordId(token: string, read: ReadAccessToken, nowMs: number): Promise<string> {
  const claims = await read(token, nowMs).catch(() => undefined)
  return claims?.jti ?? unknown
}

/** Whether a record was asked for by what its holder has: an access token by the JWT itself, never by its bare `jti`. */
export function isPresented(ctx: KoaContextWithOIDC, token: { kind: string }): boolean {
  return token.kind === 'RefreshToken' || ctx.state.presentedJwt === true
}
