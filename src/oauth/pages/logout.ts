import { html, type Markup } from '../../http/pages/html.ts'

export const logoutTitle = 'Sign out?'

/** Asks before the login ends; the provider's own form carries what proves that the person was asked. */
export function logoutBody(providerForm: string, clientName: string | undefined): Markup {
  return html`<p class="lead">${
    clientName === undefined
      ? 'You will have to sign in again here.'
      : html`<strong>${clientName}</strong> asks to sign you out here.`
  }</p>
${{ markup: providerForm }}
<button type="submit" form="op.logoutForm" name="logout" value="yes" autofocus>Sign out</button>`
}

export const loggedOutTitle = 'You are signed out'

export const loggedOutBody = html`<p class="lead">This page may be closed.</p>`
