import { html, type Markup } from '../../http/pages/html.ts'

export const errorTitle = 'Something went wrong'

/** Advice for the user, by error code. */
const advice: Record<string, string> = {
  invalid_client: 'The app that sent you here is not registered with this service, or no longer is.',
  invalid_redirect_uri:
    'The app asked to send you to an address that is not registered for it, so you were not redirected.',
  server_error: 'The error is on our side and has been logged. Try again later.',
  temporarily_unavailable: 'The service is busy. Try again in a few seconds.',
}

const otherwise = 'Go back to the app and start again. If it happens again, send the details below to its developers.'

/** Renders an authorization request error (RFC 6749 §4.1.2.1): a plain sentence, then the error code. */
export function errorBody(error: Record<string, unknown>): Markup {
  const lines = Object.entries(error).map(([name, value]) => html`<dt>${name}</dt><dd>${String(value)}</dd>`)
  return html`<p class="lead">${advice[String(error.error)] ?? otherwise}</p>
<dl>${lines}</dl>`
}

/** Renders an error as one sentence. */
export const plainErrorBody = (detail: string): Markup => html`<p class="lead">${detail}</p>`
