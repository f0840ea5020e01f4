import { html, type Markup } from '../../http/pages/html.ts'

export interface InvitationView {
  action: string
  token: string
  name: string
  email: string
  mistake?: string | undefined
}

export const invitationTitle = 'Choose a password'

/** The form to set a password; it shows the e-mail address, read-only, for password managers. */
export function invitationBody({ action, token, name, email, mistake }: InvitationView): Markup {
  const invalid = mistake !== undefined && html` aria-invalid="true"`
  const described = mistake === undefined ? 'hint' : 'mistake hint'
  return html`<p class="lead">Welcome, <strong>${name}</strong>. With it you can sign in.</p>
${mistake !== undefined && html`<p class="alert" role="alert" id="mistake">${mistake}</p>`}
<form method="post" action="${action}">
<input type="hidden" name="token" value="${token}">
<label for="email">E-mail address</label>
<input id="email" type="email" autocomplete="username" readonly value="${email}">
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="new-password" required minlength="12" autofocus
 aria-describedby="${described}"${invalid}>
<p class="hint" id="hint">At least 12 characters. Several unrelated words make a good one.</p>
<label for="repeated">Password again</label>
<input id="repeated" name="repeated" type="password" autocomplete="new-password" required minlength="12"${invalid}>
<button type="submit">Set password</button>
</form>`
}

export const passwordSetTitle = 'Your password is set'

export const passwordSetBody = html`<p class="lead">You can sign in with it now. This page may be closed.</p>`
