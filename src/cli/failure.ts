/** What a command line calls the members of a request that have another name there. */
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

/** Why a command failed, naming the options that are wrong and the form that they must have. */
export function failureText(error: unknown): string {
  const { message = String(error), code = '', errors = [] } = Object(error) as Failure
  // Some say more than their fields do.
  const isByField = code === 'INVALID_INPUT' || errors.every(({ message: rule }) => message.includes(rule))
  if (!isByField || errors.length === 0) return message
  return errors.map(({ field, message: rule }) => `${options[field] ?? field} ${rule}`).join('\n')
}
