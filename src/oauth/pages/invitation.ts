import { html, type Markup } from '../../http/pages/html.ts'

export interface InvitationView {
  action: string
  token: string
  name: string
  email: string
  error?: string | undefined
  /** Fields to fill in besides the password. */
  fields: readonly { name: string; label: string; maxLength: number | undefined; value: string }[]
}

export const invitationTitle = 'Choose a password'

/** Renders the form for setting a password. The form includes the e-mail address, read-only, for password managers. */
export function invitationBody({ action, token, name, email, error, fields }: InvitationView): Markup {
  const invalid = error !== undefined && html` aria-invalid="true"`
  const described = error === undefined ? 'hint' : 'error hint'
  return html`<p class="lead">Welcome, <strong>${name}</strong>. You will sign in with this password.</p>
${error !== undefined && html`<p class="alert" role="alert" id="error">${error}</p>`}
<form method="post" action="${action}">
<input type="hidden" name="token" value="${token}">
<label for="email">E-mail address</label>
<input id="email" type="email" autocomplete="username" readonly value="${email}">
${fields.map(fieldBody)}<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="new-password" required minlength="12" autofocus
 aria-describedby="${described}"${invalid}>
<p class="hint" id="hint">At least 12 characters. Several unrelated words make a good password.</p>
<label for="repeated">Password again</label>
<input id="repeated" name="repeated" type="password" autocomplete="new-password" required minlength="12"${invalid}>
<button type="submit">Set password</button>
</form>`
}

const fieldBody = ({ name, label, maxLength, value }: InvitationView['fields'][number]) =>
  html`<label for="${fieldPrefix}${name}">${label} (optional)</label>
<input id="${fieldPrefix}${name}" name="${fieldPrefix}${name}" value="${value}"${
    maxLength !== undefined && html` maxlength="${maxLength}"`
  }>`

/** Prefix of the names of the additional fields in the form. It prevents conflicts with the names of other inputs. */
export const fieldPrefix = 'field-'

export const passwordSetTitle = 'Your password is set'

export const passwordSetBody = html`<p class="lead">You can now sign in with it. You may close this page.</p>`
