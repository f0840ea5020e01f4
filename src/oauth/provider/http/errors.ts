import type { EventEmitter } from 'node:events'
import type Provider from 'oidc-provider'
import type { ErrorOut, KoaContextWithOIDC } from 'oidc-provider'
import type { Frame, Page } from '../../../http/pages/layout.ts'
import type { Engine } from '../../../storage/engine.ts'
import { busyPage, errorBody, errorTitle } from '../../pages/error.ts'

/** Endpoints that users open in a browser; errors from all other endpoints are JSON, regardless of Accept. */
const pages = new Set(['authorization', 'resume', 'end_session', 'end_session_confirm', 'end_session_success'])
const retryAfterSeconds = 5
const busy = {
  error: 'temporarily_unavailable',
  error_description: 'the server is overloaded; try again in a few seconds',
}
const broken = { error: 'server_error', error_description: 'an unexpected error occurred' }

export type RenderError = (ctx: KoaContextWithOIDC, error: ErrorOut) => void

/**
 * Returns a function that renders errors as JSON (RFC 6749 §5.2), or as HTML at endpoints that users open in a browser.
 * An internal error with status 503 becomes `temporarily_unavailable`, and its page retries a GET request.
 */
export function errorRenderer(frame: Frame): RenderError {
  return (ctx, error) => {
    ctx.set('Cache-Control', 'no-store')
    const isBusy = ctx.status === 503
    const shown = error.error !== broken.error ? error : isBusy ? busy : broken
    if (!pages.has(ctx.oidc?.route) || ctx.accepts('json', 'html') !== 'html') ctx.body = shown
    else if (isBusy) {
      const { page, headers } = busyPage(frame, retryAfterSeconds, ctx.method === 'GET' ? ctx.url : null)
      ctx.set(headers)
      showPage(ctx, page)
    } else showPage(ctx, frame(errorTitle, errorBody({ ...shown })))
  }
}

/** Responds with an HTML page. */
export function showPage(ctx: KoaContextWithOIDC, { html, policy }: Page): void {
  ctx.set('Content-Security-Policy', policy)
  ctx.type = 'html'
  ctx.body = html
}

/** Reports internal errors, and responds with 503 instead of 500 if the database is unavailable. */
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
    renderError(ctx, broken)
  }
  provider.on('server_error', fail)
  // Errors thrown outside the provider's error handling would reach Koa's default handler, which drops all headers.
  provider.use((ctx, next) => next().catch((error) => fail(ctx as KoaContextWithOIDC, error)))
  const koa: EventEmitter = provider
  koa.on('error', report)
}
