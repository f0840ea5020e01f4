import type { FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'

/** The caller: the client that holds the token and the subject it acts for (the client itself, or a user). */
export interface Caller {
  clientId: string
  subject: string
  scopes: ReadonlySet<string>
}

/** Result of checking a bearer token. */
export type Verification = { caller: Caller } | { refused: 'AUTH_TOKEN_EXPIRED' | 'AUTH_TOKEN_INVALID' }

/** Verifies a bearer token; synchronous for a cached token. */
export type Verify = (token: string) => Verification | Promise<Verification>

/** The API key of a request: it selects the rate limits to count against and grants no access. */
export interface ApiKeyIdentity {
  id: string
  /** `calls/seconds`; null for the service default. */
  rate: string | null
  /** Requests per month; null for the service default. */
  quota: number | null
}

/** Looks a key up by its text; null for an unknown one. Synchronous for a cached key. */
export type ReadApiKey = (text: string) => ApiKeyIdentity | null | Promise<ApiKeyIdentity | null>

export interface IdentifyOptions {
  verify: Verify
  /** Reads `X-API-Key`; without it API keys are disabled. */
  readApiKey?: ReadApiKey
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by `identify` when a valid `X-API-Key` was sent. */
    apiKey: ApiKeyIdentity | null
    /** Set by `identify`: the caller, the reason the token was rejected, or null when no token was sent. */
    caller: Verification | null
  }
}

const scheme = 'Bearer '

/** Scheme names are case-insensitive (RFC 9110 §11.1), but nearly all clients use the spelling of RFC 6750. */
const isBearer = (header: string) =>
  header.startsWith(scheme) || header.slice(0, scheme.length).toLowerCase() === scheme.toLowerCase()

/**
 * Bearer token → `request.caller` (RFC 6750 §2.1), X-API-Key → `request.apiKey`. Never rejects: a request with a bad token
 * must still be counted by address.
 */
export const identify = fastifyPlugin<IdentifyOptions>(
  async (app, { verify, readApiKey }) => {
    app.decorateRequest('caller', null)
    app.decorateRequest('apiKey', null)
    const identifyCaller = (request: FastifyRequest, done: Done) => {
      const header = request.headers.authorization
      // Other schemes are left to the routes that accept them, such as the token endpoint.
      if (header === undefined || !isBearer(header)) return done()
      const verified = verify(header.slice(scheme.length).trimStart())
      if (!(verified instanceof Promise)) return remember(request, verified, done)
      verified.then((result) => remember(request, result, done), done)
    }
    app.addHook('onRequest', (request, _reply, done) => {
      const key = request.headers['x-api-key']
      if (typeof key !== 'string' || !readApiKey) return identifyCaller(request, done)
      const next = (identity: ApiKeyIdentity | null) => {
        request.apiKey = identity
        identifyCaller(request, done)
      }
      const found = readApiKey(key)
      found instanceof Promise ? found.then(next, done) : next(found)
    })
  },
  { name: 'identify', dependencies: ['https'] },
)

type Done = (error?: Error) => void

function remember(request: FastifyRequest, result: Verification, done: Done): void {
  request.caller = result
  done()
}

/** The caller of a request that passed `authorize`. Throws when there is none, which is a programming error. */
export function callerOf(request: FastifyRequest): Caller {
  const { caller } = request
  if (caller && 'caller' in caller) return caller.caller
  throw new Error('The route reads its caller but does not require one')
}

/** The sender of a request for the audit log; without client and subject when no token was accepted. */
export function auditActor({ caller, id, ip }: FastifyRequest) {
  const known = caller && 'caller' in caller ? caller.caller : undefined
  return { clientId: known?.clientId ?? null, subject: known?.subject ?? null, address: ip, requestId: id }
}
