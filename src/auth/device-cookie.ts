const name = '__Host-plinth_device'
const lifeSeconds = 180 * 86_400
const pattern = new RegExp(`(?:^|;)\\s*${name}=([\\w.-]{1,200})(?:;|$)`)

/** The token of an earlier login from this device, if its browser sent one. */
export const deviceTokenOf = (cookie: string | undefined): string | undefined => pattern.exec(cookie ?? '')?.[1]

/** The cookie that lets a device be known again. It proves nobody's identity: it only counts tries apart. */
export const deviceCookie = (token: string): string =>
  `${name}=${token}; Path=/; Max-Age=${lifeSeconds}; Secure; HttpOnly; SameSite=Lax`
