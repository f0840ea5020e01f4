const loopback = /^http:\/\/(127\.0\.0\.1|\[::1\]|localhost)([:/?]|$)/
const privateUse = /^[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+:/
/** A name or a number (RFC 1123 §2.1): `URL` lets more characters pass. */
const host = /^([a-z0-9-]+(\.[a-z0-9-]+)*|\[[0-9a-f:.]+\])$/

/** Whether a client may register the address: https, http to a loopback host, or a private-use scheme (RFC 8252 §7). */
export function isRedirectUri(uri: string): boolean {
  const url = /[\p{C}\s#\\*]/u.test(uri) ? null : URL.parse(uri)
  if (!url || url.username || url.password) return false
  return url.protocol === 'https:' ? host.test(url.hostname) : isNativeUri(uri)
}

/** Whether only an app on the user's own device can be at the address, so that its port may vary (RFC 8252 §7.3). */
export function isNativeUri(uri: string): boolean {
  return loopback.test(uri) || privateUse.test(uri)
}

/** Whether the address has the scheme of an app instead of the web's (RFC 8252 §7.1). */
export function isPrivateUse(uri: string): boolean {
  return privateUse.test(uri)
}

/** Whether tokens may travel to the address in its fragment: https, to another machine. */
export function isPublicHttps(uri: string): boolean {
  return uri.startsWith('https:') && new URL(uri).hostname !== 'localhost'
}
