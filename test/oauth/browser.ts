import { type Agent, request } from 'undici'

/** A response, and the URL from which it came after any redirects. */
export interface Visit {
  status: number
  headers: Record<string, string | string[] | undefined>
  url: string
  text: string
}

interface Credentials {
  email: string
  password: string
}

/** Returns a browser without JavaScript, which stores cookies (RFC 6265) and follows the service's own redirects. */
export function browser({ agent, baseUrl }: { agent: Agent; baseUrl: string }) {
  const jar = new Map<string, { value: string; path: string }>()
  const cookiesFor = (path: string) =>
    [...jar]
      .filter(([, cookie]) => path.startsWith(cookie.path))
      .map(([key, { value }]) => `${key.split(' ')[0]}=${value}`)
  const keep = (lines: string[]) => {
    for (const line of lines) {
      const [pair = '', ...attributes] = line.split(/; */)
      const [name = '', value = ''] = [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]
      const path = attributes.find((text) => /^path=/i.test(text))?.slice(5) ?? '/'
      const isOver = attributes.some((text) => /^expires=Thu, 01 Jan 1970/i.test(text))
      if (isOver) jar.delete(`${name} ${path}`)
      else jar.set(`${name} ${path}`, { value, path })
    }
  }
  const once = async (
    url: string,
    form?: Record<string, string>,
    headers: Record<string, string> = {},
  ): Promise<Visit> => {
    const { pathname } = new URL(url)
    const response = await request(url, {
      method: form ? 'POST' : 'GET',
      body: form && new URLSearchParams(form).toString(),
      headers: {
        accept: 'text/html,*/*;q=0.8',
        cookie: cookiesFor(pathname).join('; '),
        ...(form && { 'content-type': 'application/x-www-form-urlencoded' }),
        ...headers,
      },
      dispatcher: agent,
    })
    keep([response.headers['set-cookie'] ?? []].flat())
    return { status: response.statusCode, headers: response.headers, url, text: await response.body.text() }
  }
  const visit = async (to: string, form?: Record<string, string>, headers?: Record<string, string>): Promise<Visit> => {
    let at = await once(new URL(to, baseUrl).href, form, headers)
    while (at.status === 303 && new URL(String(at.headers.location), at.url).origin === baseUrl) {
      at = await once(new URL(String(at.headers.location), at.url).href)
    }
    return at
  }
  /** Submits the login form. */
  const logIn = (page: Visit, who: Credentials) =>
    visit(formAction(page, 'login'), { email: who.email, password: who.password })
  /** Submits the consent form. */
  const decide = (page: Visit, decision: 'allow' | 'deny') => visit(formAction(page, 'consent'), { decision })
  /** Logs in and consents if prompted; returns the redirect URI. */
  const authorize = async (url: string, who: Credentials): Promise<URL> => {
    let page = await visit(url)
    if (formAction(page, 'login')) page = await logIn(page, who)
    if (formAction(page, 'consent')) page = await decide(page, 'allow')
    return sentTo(page)
  }
  return { jar, once, visit, logIn, decide, authorize }
}

export type Browser = ReturnType<typeof browser>

/** Returns the form action that ends with this segment, or '' if the page has none. */
export const formAction = ({ text }: Visit, ending: string): string =>
  new RegExp(`action="([^"]*/${ending})"`).exec(text)?.[1] ?? ''

/** Returns the URI to which the user is redirected. */
export const sentTo = ({ headers, text }: Visit): URL => {
  if (headers.location === undefined)
    throw new Error(`The response is not a redirect: ${text.replace(/<style>.*<\/style>/s, '')}`)
  return new URL(String(headers.location))
}
