import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as openid from 'openid-client'
import { Agent, fetch, request } from 'undici'
import { builtIn } from '../../src/catalog/service.ts'
import { readConfig } from '../../src/config/config.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import type { NewClient } from '../../src/oauth/clients/validate.ts'
import { addUser, openAccount, type Role, setPasswordHash } from '../../src/oauth/users/accounts.ts'
import { passwords } from '../../src/oauth/users/passwords.ts'
import { type Service, startService } from '../../src/start.ts'
import type { EngineUnderTest } from '../support/engines.ts'
import { withoutLimits } from '../support/limits.ts'
import { quickCost } from './support.ts'

export const redirectUri = 'https://app.example/cb'
export const password = 'tundra violin marble'

const quick = passwords(randomBytes, quickCost)

/** The whole service in this process: listener, TLS, database, and everything `plinth serve` starts. */
export async function realServer(engine: EngineUnderTest, env: Record<string, string> = {}) {
  const place = await engine.place()
  const dataDir = mkdtempSync(join(tmpdir(), 'plinth-auth-'))
  const settings = { PLINTH_PORT: '0', PLINTH_HTTP_PORT: '0', PLINTH_LOG_LEVEL: 'fatal', ...withoutLimits, ...env }
  const config = readConfig({ ...settings, PLINTH_DATA_DIR: dataDir, DATABASE_URL: place.url })
  const service = await startService({ ...config, passwordCost: quickCost }, builtIn, 'test')
  const ca = service.authorityFile && readFileSync(service.authorityFile, 'utf8')
  const agent = new Agent(ca ? { connect: { ca } } : {})
  const close = async () => {
    await agent.destroy()
    await service.close()
    await place.remove()
    rmSync(dataDir, { recursive: true, force: true })
  }
  return { ...service, agent, close, people: 0 }
}

export type Real = Awaited<ReturnType<typeof realServer>>

/** A user with a password. */
export async function person(real: Real, { role = 'user' as Role, name = 'Ada Lovelace' } = {}) {
  const email = `ada${++real.people}@example.com`
  const hash = await quick.hash(password)
  const userId = await real.db.write(async (tx) => {
    const id = await addUser(tx, name, email, Date.now())
    await openAccount(tx, id, role, Date.now())
    await setPasswordHash(tx, id, hash, Date.now())
    return id
  })
  return { userId, sub: String(userId), name, email, password }
}

export type Person = Awaited<ReturnType<typeof person>>

export const codeGrants = ['authorization_code', 'refresh_token']

/** Registers a client with every scope, by default for code and refresh. */
export async function client({ db, sealer }: Pick<Service, 'db' | 'sealer'>, change: Partial<NewClient> = {}) {
  const wanted = {
    name: 'The App',
    scopes: Object.keys(builtIn.scopes),
    grants: codeGrants,
    redirectUris: [redirectUri],
    ...change,
  }
  const made = await createClient(db, sealer, builtIn.scopes, wanted)
  return { id: made.client.id, secret: made.secret }
}

/** openid-client as an app would configure it, trusting our CA; uses discovery for everything. */
export async function relyingParty(
  real: Real,
  { id, secret }: { id: string; secret: string | null },
  authentication?: openid.ClientAuth,
): Promise<openid.Configuration> {
  // Each side has its own types of fetch.
  const overTls = (url: string, options: object) => fetch(url, { ...options, dispatcher: real.agent })
  const how = authentication ?? (secret === null ? openid.None() : openid.ClientSecretBasic(secret))
  const options = { [openid.customFetch]: overTls as never }
  const config = await openid.discovery(new URL(real.baseUrl), id, {}, how, options)
  // ID tokens from the token endpoint need no signature; verify ours all the same.
  openid.enableNonRepudiationChecks(config)
  return config
}

export interface Visit {
  status: number
  headers: Record<string, string | string[] | undefined>
  url: string
  text: string
}

/** A browser without JavaScript: stores cookies (RFC 6265) and follows redirects on the service's origin. */
export function browser({ agent, baseUrl }: Pick<Real, 'agent' | 'baseUrl'>) {
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
    const answer = await request(url, {
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
    keep([answer.headers['set-cookie'] ?? []].flat())
    return { status: answer.statusCode, headers: answer.headers, url, text: await answer.body.text() }
  }
  const visit = async (to: string, form?: Record<string, string>, headers?: Record<string, string>): Promise<Visit> => {
    let at = await once(new URL(to, baseUrl).href, form, headers)
    while (at.status === 303 && new URL(String(at.headers.location), at.url).origin === baseUrl) {
      at = await once(new URL(String(at.headers.location), at.url).href)
    }
    return at
  }
  return { jar, once, visit }
}

export type Browser = ReturnType<typeof browser>

/** The action of the form on a page. */
export const formAction = ({ text }: Visit, ending: string): string =>
  new RegExp(`action="([^"]*/${ending})"`).exec(text)?.[1] ?? ''

/** Submits the login page. */
export const logIn = ({ visit }: Browser, page: Visit, who: { email: string; password: string }) =>
  visit(formAction(page, 'login'), { email: who.email, password: who.password })

/** Submits the consent page. */
export const answer = ({ visit }: Browser, page: Visit, decision: 'allow' | 'deny') =>
  visit(formAction(page, 'consent'), { decision })

/** The URI to which the user is redirected. */
export const sentTo = ({ headers, text }: Visit): URL => {
  if (headers.location === undefined)
    throw new Error(`Nobody is sent anywhere: ${text.replace(/<style>.*<\/style>/s, '')}`)
  return new URL(String(headers.location))
}

/** Logs in and consents if asked; returns the redirect URI. */
export async function through(one: Browser, url: string, who: Person): Promise<URL> {
  let page = await one.visit(url)
  if (formAction(page, 'login')) page = await logIn(one, page, who)
  if (formAction(page, 'consent')) page = await answer(one, page, 'allow')
  return sentTo(page)
}

export interface Flow {
  scope?: string
  state?: string
  pkce?: boolean
  parameters?: Record<string, string>
}

/** The whole authorization code flow with openid-client. */
export async function codeFlow(config: openid.Configuration, one: Browser, who: Person, flow: Flow = {}) {
  const { scope = 'openid profile email', state = randomBytes(8).toString('hex'), pkce = true, parameters = {} } = flow
  const verifier = openid.randomPKCECodeVerifier()
  const nonce = scope.split(' ').includes('openid') ? openid.randomNonce() : undefined
  const proof = pkce && {
    code_challenge: await openid.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  }
  const request = { redirect_uri: redirectUri, scope, state, ...(nonce && { nonce }), ...proof, ...parameters }
  const url = openid.buildAuthorizationUrl(config, request)
  const back = await through(one, url.href, who)
  const checks = {
    expectedState: state,
    ...(nonce && { expectedNonce: nonce }),
    ...(pkce && { pkceCodeVerifier: verifier }),
  }
  return { back, verifier, tokens: await openid.authorizationCodeGrant(config, back, checks) }
}
