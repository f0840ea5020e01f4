/** Maps request fields to the command-line options that set them. */
const options: Readonly<Record<string, string>> = {
  ...{ id: '--id', name: '--name', scopes: '--scope', grants: '--grant', redirectUris: '--redirect-uri' },
  ...{
    postLogoutRedirectUris: '--post-logout-uri',
    labels: '--label',
    rate: '--rate',
    quota: '--quota',
    expiresAt: '--expires',
  },
  ...{ from: '--from', to: '--to' },
}

interface Failure {
  message?: string
  code?: string
  errors?: readonly { field: string; message: string }[]
}

/**
 * Returns the error message of a failed command: a line for each invalid field, or the message of the error. For an
 * `AggregateError`, the messages of its errors follow its own.
 */
export function failureText(error: unknown): string {
  if (error instanceof AggregateError)
    return [error.message, ...error.errors.map(failureText)].filter(Boolean).join('\n')
  const { message = String(error), code = '', errors = [] } = Object(error) as Failure
  // The field errors replace a message that adds nothing to them: that of INVALID_INPUT, or one that contains all field
  // errors.
  const isByField = code === 'INVALID_INPUT' || errors.every(({ message: rule }) => message.includes(rule))
  if (!isByField || errors.length === 0) return message
  return errors.map(({ field, message: rule }) => `${options[field] ?? field} ${rule}`).join('\n')
}
