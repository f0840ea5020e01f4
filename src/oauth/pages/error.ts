import { html, type Markup } from '../../http/pages/html.ts'
import type { Frame, Page } from '../../http/pages/layout.ts'

export const errorTitle = 'Something went wrong'

/** Advice for the user, by error code. */
const advice: Record<string, string> = {
  invalid_client: 'The app that sent you here is not registered with this service, or no longer is.',
  invalid_redirect_uri:
    'The app asked to send you to an address that is not registered for it, so you were not redirected.',
  server_error: 'The error is on our side and has been logged. Try again later.',
}

const otherwise = 'Go back to the app and start again. If it happens again, send the details below to its developers.'

/** Renders an error of the authorization server (RFC 6749 §4.1.2.1): advice for the user, then the error's members. */
export function errorBody(error: Record<string, unknown>): Markup {
  const lines = Object.entries(error).map(([name, value]) => html`<dt>${name}</dt><dd>${String(value)}</dd>`)
  return html`<p class="lead">${advice[String(error.error)] ?? otherwise}</p>
<dl>${lines}</dl>`
}

/** Renders an error as one sentence. */
export const plainErrorBody = (detail: string): Markup => html`<p class="lead">${detail}</p>`

/** The page and header fields that a browser receives while the service is temporarily unavailable. */
export interface BusyPage {
  page: Page
  headers: Record<string, string>
}

/**
 * Returns a page from which the browser opens `path` after some seconds; without a path, it asks the user to go back.
 */
export function busyPage(frame: Frame, seconds: number, path: string | null): BusyPage {
  const again = html`The page opens again in ${String(seconds)} seconds. <a href="${path ?? ''}">Open it now</a>`
  const body = html`<p class="lead">${path === null ? 'Go back, and try again in a few seconds.' : again}</p>`
  const headers = { 'retry-after': String(seconds), ...(path !== null && { refresh: `${seconds}; url=${path}` }) }
  return { page: frame('The service is busy', body), headers }
}
