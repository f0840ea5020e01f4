import { html, type Markup } from '../../http/pages/html.ts'
import { interactionPath } from '../provider/http/endpoints.ts'

export interface ConsentView {
  uid: string
  clientName: string
  /** The URI to which the user is redirected. */
  redirectUri: string
  name: string
  email: string
  /** Plain-language descriptions of the requested scopes that the user can grant. */
  asks: readonly string[]
}

export const consentTitle = ({ clientName }: ConsentView) => `Allow ${clientName}?`

/** Renders the consent page: the client, the user, the scopes in plain language, and the redirect target. */
export function consentBody({ uid, clientName, redirectUri, name, email, asks }: ConsentView): Markup {
  const lines = asks.map((text) => html`<li>${text}</li>`)
  const { host, protocol } = new URL(redirectUri)
  return html`<p class="lead">You are signed in as <strong>${name}</strong> (${email}).</p>
<p id="asks"><strong>${clientName}</strong> asks to:</p>
<ul class="scopes" aria-labelledby="asks">
${lines}
</ul>
<form method="post" action="${interactionPath}/${uid}/consent">
<button type="submit" name="decision" value="allow">Allow</button>
<button class="second" type="submit" name="decision" value="deny">Do not allow</button>
</form>
<p class="small">Your decision is sent to <strong>${host || protocol}</strong>. Your password is not.</p>`
}
