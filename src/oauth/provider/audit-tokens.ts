import type Provider from 'oidc-provider'
import type { KoaContextWithOIDC } from 'oidc-provider'
import type { Audit } from '../../audit/buffer.ts'
import { requestIdOf } from './http/http-bodies.ts'

/** A token that the provider reports as revoked. */
interface RevokedToken {
  kind: string
  jti?: string
  clientId?: string | undefined
  accountId?: string | undefined
}

/**
 * Audits each grant and revocation. Repeated client-credentials grants and rejected requests are combined into counts,
 * because a caller can trigger any number of them.
 */
export function auditTokens(
  provider: Provider,
  audit: Pick<Audit, 'note' | 'repeated' | 'tally'>,
  address: (message: KoaContextWithOIDC['req']) => string,
): void {
  const sender = (ctx: KoaContextWithOIDC) => ({ ...requestOf(ctx), address: address(ctx.req) })
  provider.on('grant.success', (ctx) => {
    const { params, entities } = ctx.oidc
    const grant = String(params?.grant_type)
    const scope = String((ctx.body as { scope?: string } | undefined)?.scope ?? '')
    const subject = entities.Account?.accountId ?? ctx.oidc.client?.clientId ?? null
    const record = grant === 'client_credentials' ? audit.repeated : audit.note
    record({ ...sender(ctx), subject, event: 'token.granted', details: { grant, scope } })
  })
  provider.on('authorization.success', (ctx) => {
    const { params, session } = ctx.oidc
    if (params?.response_type !== 'id_token') return
    const details = { grant: 'implicit', scope: String(params.scope) }
    audit.note({ ...sender(ctx), subject: session?.accountId ?? null, event: 'token.granted', details })
  })
  provider.on('grant.error', (ctx, { error }) => {
    audit.tally({ ...sender(ctx), event: 'token.refused', details: { error } })
  })
  provider.on('grant.revoked', (ctx, grantId) => {
    audit.note({ ...sender(ctx), event: 'grant.revoked', target: grantId })
  })
  const revoked = ({ kind, jti, clientId, accountId }: RevokedToken) => {
    // A refresh token's id is the token itself, so the entry omits it.
    const target = kind === 'RefreshToken' ? null : (jti ?? null)
    const owner = { clientId: clientId ?? null, subject: accountId ?? null }
    audit.note({ ...owner, event: 'token.revoked', target, details: { kind } })
  }
  provider.on('access_token.destroyed', (token) => revoked(token))
  provider.on('client_credentials.destroyed', (token) => revoked(token))
  provider.on('refresh_token.destroyed', (token) => revoked(token))
}

/** Returns the client and the request id for audit entries. */
export function requestOf(ctx: KoaContextWithOIDC) {
  return { clientId: ctx.oidc?.client?.clientId ?? null, requestId: requestIdOf(ctx.res) }
}
