import type Provider from 'oidc-provider'
import type { KoaContextWithOIDC } from 'oidc-provider'
import type { Audit } from '../../audit/buffer.ts'
import { requestIdOf } from './http/http-bodies.ts'

/** A token that the provider reports as revoked. */
interface EndedToken {
  kind: string
  jti?: string
  clientId?: string | undefined
  accountId?: string | undefined
}

/**
 * Audits each grant and revocation; client-credentials grants and rejected requests are only counted, because anyone can
 * trigger them.
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
    const tell = grant === 'client_credentials' ? audit.repeated : audit.note
    tell({ ...sender(ctx), subject, event: 'token.granted', details: { grant, scope } })
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
  const ended = ({ kind, jti, clientId, accountId }: EndedToken) => {
    // A refresh token's id is the token itself.
    const target = kind === 'RefreshToken' ? null : (jti ?? null)
    const whose = { clientId: clientId ?? null, subject: accountId ?? null }
    audit.note({ ...whose, event: 'token.revoked', target, details: { kind } })
  }
  provider.on('access_token.destroyed', (token) => ended(token))
  provider.on('client_credentials.destroyed', (token) => ended(token))
  provider.on('refresh_token.destroyed', (token) => ended(token))
}

/** The requesting client and the request, for audit entries. */
export function requestOf(ctx: KoaContextWithOIDC) {
  return { clientId: ctx.oidc?.client?.clientId ?? null, requestId: requestIdOf(ctx.res) }
}
