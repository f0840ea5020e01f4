import { html, type Markup } from '../../http/pages/html.ts'
import { interactionPath } from '../provider/http/endpoints.ts'

export interface LoginView {
  uid: string
  clientName: string
  email: string
  /** Why the previous attempt failed. */
  error?: string | undefined
}

export const loginTitle = 'Sign in'

/** Renders the login form; focuses the password field if the e-mail address is prefilled. */
export function loginBody({ uid, clientName, email, error }: LoginView): Markup {
  const onPassword = email !== ''
  const invalid = error !== undefined && html` aria-invalid="true" aria-describedby="error"`
  const focus = html` autofocus`
  return html`<p class="lead">to continue to <strong>${clientName}</strong></p>
${error !== undefined && html`<p class="alert" role="alert" id="error">${error}</p>`}
<form method="post" action="${interactionPath}/${uid}/login">
<label for="email">E-mail address</label>
<input id="email" name="email" type="email" autocomplete="username" autocapitalize="none" spellcheck="false" maxlength="254"
 required value="${email}"${invalid}${!onPassword && focus}>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required${invalid}${onPassword && focus}>
<button type="submit">Sign in</button>
</form>
<form method="post" action="${interactionPath}/${uid}/cancel"><button class="second" type="submit">Cancel</button></form>`
}
