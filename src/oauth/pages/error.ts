import { html, type Markup } from '../../http/pages/html.ts'

export const errorTitle = 'This did not work'

/** What a user can do about an error, by its code. */
const advice: Record<string, string> = {
  invalid_client: 'The app that sent you here is not registered with this service, or not any more.',
  invalid_redirect_uri: 'The app asks to send you to an address that is not registered for it, so nothing was sent.',
  server_error: 'The fault is on our side and was recorded. Try again later.',
  temporarily_unavailable: 'Too much is going on at the moment. Try again in a few seconds.',
}

const otherwise = 'Go back to the app and start again. If it happens once more, tell its makers what stands below.'

/** An error of an authorization request (RFC 6749 §4.1.2.1): a plain sentence, then the error code. */
export function errorBody(error: Record<string, unknown>): Markup {
  const lines = Object.entries(error).map(([name, value]) => html`<dt>${name}</dt><dd>${String(value)}</dd>`)
  return html`<p class="lead">${advice[String(error.error)] ?? otherwise}</p>
<dl>${lines}</dl>`
}

/** An error in one sentence. */
export const plainErrorBody = (detail: string): Markup => html`<p class="lead">${detail}</p>`
