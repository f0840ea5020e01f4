const loopback = /^http:\/\/(127\.0\.0\.1|\[::1\]|localhost)([:/?]|$)/
const privateUse = /^[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+:/
/** Matches a host name or IP address (RFC 1123 §2.1); `URL` accepts more characters. */
const host = /^([a-z0-9-]+(\.[a-z0-9-]+)*|\[[0-9a-f:.]+\])$/

/**
 * Returns whether a client may register the URI: https, http to a loopback host, or a private-use scheme (RFC 8252 §7).
 */
export function isRedirectUri(uri: string): boolean {
  const url = /[\p{C}\s#\\*]/u.test(uri) ? null : URL.parse(uri)
  if (!url || url.username || url.password) return false
  return url.protocol === 'https:' ? host.test(url.hostname) : isNativeUri(uri)
}

/**
 * Returns whether the URI belongs to an app on the user's own device: it uses http with a loopback host, or a
 * private-use scheme (RFC 8252 §7).
 */
export function isNativeUri(uri: string): boolean {
  return loopback.test(uri) || privateUse.test(uri)
}

/** Returns whether the URI has a private-use scheme (RFC 8252 §7.1). */
export function isPrivateUse(uri: string): boolean {
  return privateUse.test(uri)
}

/**
 * Returns whether tokens may be sent in the URI's fragment: the scheme must be https, and the host must not be
 * localhost.
 */
export function isPublicHttps(uri: string): boolean {
  return uri.startsWith('https:') && new URL(uri).hostname !== 'localhost'
}
