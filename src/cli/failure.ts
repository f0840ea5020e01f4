/** The command-line options whose name differs from the request's member. */
const options: Readonly<Record<string, string>> = {
  ...{ id: '--id', name: '--name', scopes: '--scope', grants: '--grant', redirectUris: '--redirect-uri' },
  ...{ postLogoutRedirectUris: '--post-logout-uri', rate: '--rate', quota: '--quota', expiresAt: '--expires' },
  ...{ from: '--from', to: '--to' },
}

interface Failure {
  message?: string
  code?: string
  errors?: readonly { field: string; message: string }[]
}

/** The text of a failed command, naming the invalid options and their required form. */
export function failureText(error: unknown): string {
  const { message = String(error), code = '', errors = [] } = Object(error) as Failure
  // Some details say more than their fields.
  const isByField = code === 'INVALID_INPUT' || errors.every(({ message: rule }) => message.includes(rule))
  if (!isByField || errors.length === 0) return message
  return errors.map(({ field, message: rule }) => `${options[field] ?? field} ${rule}`).join('\n')
}
