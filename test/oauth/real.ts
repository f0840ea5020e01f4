import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before } from 'node:test'
import * as openid from 'openid-client'
import pg from 'pg'
import { Agent, fetch, request } from 'undici'
import { builtIn } from '../../src/catalog/service.ts'
import { readConfig } from '../../src/config/config.ts'
import type { Service } from '../../src/lifecycle.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import type { NewClient } from '../../src/oauth/clients/validate.ts'
import { addUser, openAccount, type Role, setPasswordHash } from '../../src/oauth/users/accounts.ts'
import { passwords } from '../../src/oauth/users/passwords.ts'
import { startService } from '../../src/start.ts'
import { sqlitePath } from '../../src/storage/sqlite/path.ts'
import { forget } from '../support/app.ts'
import type { EngineUnderTest } from '../support/engines.ts'
import { withoutLimits } from '../support/limits.ts'
import { type Browser, browser } from './browser.ts'
import { quickCost } from './support.ts'

export const redirectUri = 'https://app.example/cb'
export const password = 'tundra violin marble'

const quick = passwords(randomBytes, quickCost)

/** Starts the whole service in this process, as `plinth serve` does, over a new database. */
export async function realServer(
  engine: Pick<EngineUnderTest, 'migratedPlace'>,
  env: Record<string, string> = {},
  definition = builtIn,
) {
  const place = await engine.migratedPlace()
  const dataDir = mkdtempSync(join(tmpdir(), 'plinth-auth-'))
  const settings = { PLINTH_PORT: '0', PLINTH_HTTP_PORT: '0', PLINTH_LOG_LEVEL: 'fatal', ...withoutLimits, ...env }
  const config = readConfig({ ...settings, PLINTH_DATA_DIR: dataDir, DATABASE_URL: place.url })
  const service = await startService({ ...config, passwordCost: quickCost }, definition, 'test')
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

/** Creates a user with a password. */
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

/** Prevents the service from writing to `auth_records` while `work` runs. */
export async function withRecordsLocked<T>({ db }: Pick<Service, 'db'>, work: () => Promise<T>): Promise<T> {
  const path = sqlitePath(db.url)
  if (path !== null) {
    const other = new DatabaseSync(path)
    other.exec('begin immediate')
    return work().finally(() => other.close())
  }
  const other = new pg.Client({ connectionString: db.url })
  await other.connect()
  await other.query('begin; lock table auth_records in access exclusive mode')
  return work().finally(() => other.end())
}

export const codeGrants = ['authorization_code', 'refresh_token']

/** Registers a client, by default with every scope and the code and refresh grants. */
export async function client({ db, sealer }: Pick<Service, 'db' | 'sealer'>, change: Partial<NewClient> = {}) {
  const wanted = {
    name: 'The App',
    scopes: Object.keys(builtIn.scopes),
    grants: codeGrants,
    redirectUris: [redirectUri],
    ...change,
  }
  const created = await createClient(db, sealer, builtIn.scopes, wanted)
  return { id: created.client.id, secret: created.secret }
}

/** Configures openid-client through discovery, as an app would. Its requests trust the local CA. */
export async function relyingParty(
  real: Real,
  { id, secret }: { id: string; secret: string | null },
  authentication?: openid.ClientAuth,
): Promise<openid.Configuration> {
  // undici and openid-client declare different types for fetch.
  const overTls = (url: string, options: object) => fetch(url, { ...options, dispatcher: real.agent })
  const how = authentication ?? (secret === null ? openid.None() : openid.ClientSecretBasic(secret))
  const options = { [openid.customFetch]: overTls as never }
  const config = await openid.discovery(new URL(real.baseUrl), id, {}, how, options)
  // openid-client does not verify the signature of ID tokens from the token endpoint by default.
  openid.enableNonRepudiationChecks(config)
  return config
}

export interface Flow {
  scope?: string
  state?: string
  pkce?: boolean
  parameters?: Record<string, string>
}

/** Runs the whole authorization code flow with openid-client. */
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
  const back = await one.authorize(url.href, who)
  const checks = {
    expectedState: state,
    ...(nonce && { expectedNonce: nonce }),
    ...(pkce && { pkceCodeVerifier: verifier }),
  }
  return { back, verifier, tokens: await openid.authorizationCodeGrant(config, back, checks) }
}

/**
 * Starts the service before the tests and closes it afterwards. Returns the service's members, a `user` with a
 * password, and helpers bound to the service.
 */
export function authService(engine: EngineUnderTest, env: Record<string, string> = {}) {
  const service = {} as Real & { user: Person }
  before(async () => {
    Object.assign(service, await realServer(engine, env))
    service.user = await person(service)
  })
  after(async () => {
    await service.close()
    forget(service)
  })
  const send = (path: string, options: RequestOptions = {}) =>
    request(service.baseUrl + path, { dispatcher: service.agent, ...options })
  return Object.assign(service, {
    browser: () => browser(service),
    person: (options?: Parameters<typeof person>[1]) => person(service, options),
    client: (change?: Partial<NewClient>) => client(service, change),
    relyingParty: (app: Parameters<typeof relyingParty>[1], authentication?: openid.ClientAuth) =>
      relyingParty(service, app, authentication),
    /** Registers a client and configures openid-client for it. */
    openidClient: async (change?: Partial<NewClient>) => relyingParty(service, await client(service, change)),
    send,
    /** Posts a form and reads the response as text. */
    postForm: async (path: string, form: Form, headers: Record<string, string> = {}) => {
      const all = { 'content-type': 'application/x-www-form-urlencoded', ...headers }
      const response = await send(path, { method: 'POST', headers: all, body: new URLSearchParams(form).toString() })
      return { status: response.statusCode, headers: response.headers, text: await response.body.text() }
    },
    /** Returns the status of an API GET request made with the access token. */
    statusFor: async (token: string, path = '/users') => {
      const response = await send(path, { headers: { authorization: `Bearer ${token}` } })
      await response.body.dump()
      return response.statusCode
    },
  })
}

type RequestOptions = NonNullable<Parameters<typeof request>[1]>
type Form = Record<string, string> | [string, string][]
