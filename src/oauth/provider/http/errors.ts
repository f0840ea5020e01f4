import type { EventEmitter } from 'node:events'
import type Provider from 'oidc-provider'
import type { ErrorOut, KoaContextWithOIDC } from 'oidc-provider'
import type { Frame, Page } from '../../../http/pages/layout.ts'
import type { Engine } from '../../../storage/engine.ts'
import { errorBody, errorTitle } from '../../pages/error.ts'

/** The endpoints people come to with a browser; at all others programs ask, whatever their Accept says. */
const pages = new Set(['authorization', 'resume', 'end_session', 'end_session_confirm', 'end_session_success'])
const retryAfterSeconds = 5
const busy = { error: 'temporarily_unavailable', error_description: 'the server cannot take the request now' }
const broken = { error: 'server_error', error_description: 'an unexpected error occurred' }

export type RenderError = (ctx: KoaContextWithOIDC, error: ErrorOut) => void

/** Makes what answers an error as RFC 6749 §5.2 says, or as a page where a person with a browser is waiting. */
export function errorRenderer(frame: Frame): RenderError {
  return (ctx, error) => {
    ctx.set('Cache-Control', 'no-store')
    if (!pages.has(ctx.oidc?.route) || ctx.accepts('json', 'html') !== 'html') ctx.body = error
    else showPage(ctx, frame(errorTitle, errorBody({ ...error })))
  }
}

/** Answers with a page. */
export function showPage(ctx: KoaContextWithOIDC, { html, policy }: Page): void {
  ctx.set('Content-Security-Policy', policy)
  ctx.type = 'html'
  ctx.body = html
}

/** Reports what went wrong inside, and answers 503 instead of 500 where the store cannot take work now. */
export function handleFailures(
  provider: Provider,
  engine: Engine,
  renderError: RenderError,
  report: (error: unknown) => void,
): void {
  const fail = (ctx: KoaContextWithOIDC, error: unknown) => {
    report(error)
    const unavailable = engine.isUnavailable(error)
    if (unavailable) ctx.set('Retry-After', String(retryAfterSeconds))
    ctx.status = unavailable ? 503 : 500
    renderError(ctx, unavailable ? busy : broken)
  }
  provider.on('server_error', fail)
  // What fails outside the provider's own handler would lose every header to Koa's.
  provider.use((ctx, next) => next().catch((error) => fail(ctx as KoaContextWithOIDC, error)))
  const koa: EventEmitter = provider
  koa.on('error', report)
}
