import { buffer } from 'node:stream/consumers'
import { decodeJwt } from 'jose'
import type Provider from 'oidc-provider'
import type {
  AccessToken,
  Adapter,
  AdapterFactory,
  AdapterPayload,
  ClientCredentials,
  JWTStructured,
  KoaContextWithOIDC,
} from 'oidc-provider'
import type { ReadAccessToken } from './access-tokens.ts'
import { withBody } from './message.ts'

type Middleware = Parameters<Provider['use']>[0]

/** What judges and keeps the tokens that are presented. */
interface Presented {
  read: ReadAccessToken
  adapter: AdapterFactory
  /** Milliseconds since the epoch. */
  now: () => number
}

/** Stands for a token that is none of ours; no record has this id. */
const unknown = '-'

/**
 * Completes each JWT access token as it is issued: its `typ`, and a record under its `jti`, with which it can be
 * introspected, revoked, and revoked together with its grant. A token that a client got for itself has no grant: it is
 * recorded when it is first presented, as hardly any ever is, and costs no write until then.
 */
export function recordIssued(adapter: AdapterFactory, typ: string) {
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
 * Lets JWT access tokens be introspected (RFC 7662) and revoked (RFC 7009), which the provider does for opaque ones only:
 * at these paths a JWT that is ours is replaced by its record's id, any other by an id that nothing has.
 */
export function presentByRecord(paths: readonly string[], presented: Presented): Middleware {
  const replace: Middleware = async (ctx, next) => {
    const form = new URLSearchParams((await buffer(ctx.req)).toString())
    const tokens = form.getAll('token')
    if (tokens.length === 1 && tokens[0]?.includes('.')) {
      ctx.state.presentedJwt = true
      form.set('token', await recordId(tokens[0], presented))
    }
    ctx.req = ctx.request.req = withBody(ctx.req, Buffer.from(form.toString()))
    await next()
  }
  return (ctx, next) => (ctx.method === 'POST' && paths.includes(ctx.path) ? replace(ctx, next) : next())
}

async function recordId(token: string, { read, adapter, now }: Presented): Promise<string> {
  const claims = await read(token, now()).catch(() => undefined)
  if (!claims?.jti) return unknown
  if (claims.sub === claims.client_id) await recordOwn(token, adapter('ClientCredentials'), now())
  return claims.jti
}

/** The record of a verified token that a client got for itself; that it was revoked stays said. */
async function recordOwn(token: string, adapter: Adapter, nowMs: number): Promise<void> {
  const { jti = '', exp = 0, iat, aud, scope, client_id: clientId, sub } = decodeJwt<{ client_id: string }>(token)
  const record = { kind: 'ClientCredentials', jti, clientId, aud, scope, iat, exp, extra: { sub } }
  await adapter.upsert(jti, record as AdapterPayload, Math.max(1, exp - Math.floor(nowMs / 1_000)))
}

/** Whether a record was asked for by what its holder has: an access token by the JWT itself, never by its bare `jti`. */
export function isPresented(ctx: KoaContextWithOIDC, token: { kind: string }): boolean {
  return token.kind === 'RefreshToken' || ctx.state.presentedJwt === true
}
