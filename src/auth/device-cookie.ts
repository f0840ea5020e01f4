const lifeSeconds = 180 * 86_400

/**
 * The cookie that lets a device be known again. It proves nobody's identity: it only counts tries apart. Over plain HTTP,
 * which is for this machine alone, it has no prefix and is not `Secure`.
 */
export function deviceCookie(issuer: string) {
  const isSecure = issuer.startsWith('https:')
  const name = `${isSecure ? '__Host-' : ''}plinth_device`
  const pattern = new RegExp(`(?:^|;)\\s*${name}=([\\w.-]{1,200})(?:;|$)`)
  return {
    /** The token of an earlier login from this device, if its browser sent one. */
    tokenIn: (cookie: string | undefined): string | undefined => pattern.exec(cookie ?? '')?.[1],
    /** A Set-Cookie with this token. */
    withToken: (token: string): string =>
      `${name}=${token}; Path=/; Max-Age=${lifeSeconds};${isSecure ? ' Secure;' : ''} HttpOnly; SameSite=Lax`,
  }
}
