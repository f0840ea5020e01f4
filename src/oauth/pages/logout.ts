import { html, type Markup } from '../../http/pages/html.ts'

export const logoutTitle = 'Sign out?'

/** Renders the logout confirmation page; the provider's form contains the CSRF token. */
export function logoutBody(providerForm: string, clientName: string | undefined): Markup {
  return html`<p class="lead">${
    clientName === undefined
      ? 'You will have to sign in again next time.'
      : html`<strong>${clientName}</strong> asks to sign you out.`
  }</p>
${{ markup: providerForm }}
<button type="submit" form="op.logoutForm" name="logout" value="yes" autofocus>Sign out</button>`
}

export const loggedOutTitle = 'You are signed out'

export const loggedOutBody = html`<p class="lead">You may close this page.</p>`
