import type { AddressInfo } from 'node:net'
import type { InjectOptions } from 'fastify'
import type { ApiKeyIdentity, ReadApiKey, TokenVerification, Verify } from '../../src/http/policies/authenticate.ts'
import type { AccessLine } from '../../src/http/server/access-log.ts'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp } from './app.ts'
import type { EngineUnderTest } from './engines.ts'
import { type KeepAliveClient, keepAliveClient } from './keep-alive.ts'

/** Maps each token to its scopes, or to null if it has expired. */
export type Tokens = Map<string, string[] | null>

/**
 * A token verifier that counts its calls and caches successful results until `forget` is called. It returns the same
 * caller object as long as the token's scopes are the same array.
 */
function countingVerifier(tokens: Tokens) {
  const cached = new Map<string, TokenVerification>()
  const callers = new Map<string, { scopes: readonly string[]; verification: TokenVerification }>()
  let count = 0
  const verified = (token: string): TokenVerification => {
    const scopes = tokens.get(token)
    if (scopes === undefined) return { refused: 'AUTH_TOKEN_INVALID' }
    if (scopes === null) return { refused: 'AUTH_TOKEN_EXPIRED' }
    const before = callers.get(token)
    if (before?.scopes === scopes) return before.verification
    const verification = { caller: { clientId: token, subject: token, scopes: new Set(scopes) } }
    callers.set(token, { scopes, verification })
    return verification
  }
  const remember = (token: string): TokenVerification => {
    const verification = verified(token)
    if ('caller' in verification) cached.set(token, verification)
    return verification
  }
  const verify: Verify = (token) => {
    count++
    return cached.get(token) ?? Promise.resolve(token).then(remember)
  }
  verify.known = (token) => () => cached.get(token)
  return { verify, forget: () => cached.clear(), count: () => count }
}

/** The API keys of both services. Only `key-one` has a rate limit. */
const apiKeys: Record<string, ApiKeyIdentity> = {
  'key-one': { id: 'one', rate: '40/30', quota: null },
  'key-two': { id: 'two', rate: null, quota: null },
}

/** A lookup of API keys that caches its results until `forget` is called. */
function cachingKeyReader() {
  const cached = new Map<string, ApiKeyIdentity | null>()
  const look = (text: string) => {
    const identity = apiKeys[text] ?? null
    cached.set(text, identity)
    return identity
  }
  const known = (text: string) => cached.get(text)
  const read = (text: string) => (cached.has(text) ? (cached.get(text) ?? null) : Promise.resolve(text).then(look))
  const readApiKey: ReadApiKey = Object.assign(read, { known })
  return { readApiKey, forget: () => cached.clear() }
}

interface Side {
  service: TestApp
  db: Database
  port: number
  lines: AccessLine[]
  deprecated: string[]
  clients: Map<number, KeepAliveClient>
  verifier: ReturnType<typeof countingVerifier>
  keys: ReturnType<typeof cachingKeyReader>
}

/** Two services with equal databases, tokens and clocks; only `fast` has the fast path. */
export interface ServicePair {
  fast: Side
  full: Side
  tokens: Tokens
  /** Clears the caches of verified tokens and API keys. */
  forget: () => void
  pass: (ms: number) => void
  /**
   * Sends requests to each service on the connection with this number. Returns the responses of both, without random
   * values and dates.
   */
  send: (connection: number, ...requests: string[]) => Promise<[fast: string[], full: string[]]>
  /** Injects a request into each service, which bypasses the network and thus the fast path. */
  inject: (request: InjectOptions & { token: string }) => Promise<void>
  /** Returns the access log lines of both services since the last call, without random values and dates. */
  lines: () => [fast: object[], full: object[]]
  close: () => Promise<void>
}

type Settings = Parameters<typeof testApp>[1]

async function startSide(engine: EngineUnderTest, tokens: Tokens, settings: Settings): Promise<Side> {
  const db = await engine.database()
  const [lines, deprecated]: [AccessLine[], string[]] = [[], []]
  const [verifier, keys] = [countingVerifier(tokens), cachingKeyReader()]
  const service = await testApp(db, {
    ...{ verify: verifier.verify, readApiKey: keys.readApiKey, onResponse: (line) => lines.push(line) },
    countDeprecated: (version, client) => deprecated.push(`${version} ${client}`),
    ...settings,
  })
  await service.app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = service.app.server.address() as AddressInfo
  return { service, db, port, lines, deprecated, clients: new Map(), verifier, keys }
}

/** Starts a pair of services with these settings. */
export async function servicePair(engine: EngineUnderTest, settings: Settings = {}): Promise<ServicePair> {
  const tokens: Tokens = new Map()
  const [fast, full] = [
    await startSide(engine, tokens, settings),
    await startSide(engine, tokens, { ...settings, fastPath: false }),
  ]
  const sides = [fast, full] as const
  const overTls = { tls: Boolean(settings.tls) }
  const sendTo = async ({ clients, port }: Side, connection: number, requests: string[]) => {
    const client = clients.get(connection) ?? keepAliveClient(port, overTls)
    clients.set(connection, client)
    return (await client.pipeline(requests)).map(comparable)
  }
  return {
    ...{ fast, full, tokens },
    forget: () => {
      for (const { verifier, keys } of sides) {
        verifier.forget()
        keys.forget()
      }
    },
    pass: (ms) => {
      for (const { service } of sides) service.clock.now += ms
    },
    send: async (connection, ...requests) => [
      await sendTo(fast, connection, requests),
      await sendTo(full, connection, requests),
    ],
    inject: async (request) => {
      for (const { service } of sides) await service.send(request)
    },
    lines: () => {
      const taken = ({ lines }: Side) =>
        lines.splice(0).map((line) => JSON.parse(withoutIds(JSON.stringify({ ...line, ms: 0 }))))
      return [taken(fast), taken(full)]
    },
    close: async () => {
      for (const { service, db, clients } of sides) {
        for (const client of clients.values()) client.close()
        await service.app.close()
        await db.close()
      }
    },
  }
}

const withoutIds = (text: string) =>
  text.replaceAll(/[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[\da-f]{4}-[\da-f]{12}/g, 'uuid')

/** Removes random ids and the date, which always differ between responses of two services. */
const comparable = (response: string) => withoutIds(response).replace(/\r\nDate: [^\r\n]*/, '')
