import type { FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'

/** The caller: the client that presented the token and the subject it acts for (the client itself or a user). */
export interface Caller {
  clientId: string
  subject: string
  scopes: ReadonlySet<string>
}

/** The result of verifying a bearer token. */
export type Verification = { caller: Caller } | { refused: 'AUTH_TOKEN_EXPIRED' | 'AUTH_TOKEN_INVALID' }

/** Verifies a bearer token; synchronous if the result is cached. */
export type Verify = (token: string) => Verification | Promise<Verification>

/** The API key of a request: it selects which rate limits apply and grants no access. */
export interface ApiKeyIdentity {
  id: string
  /** `calls/seconds`; null for the service default. */
  rate: string | null
  /** Requests per month; null for the service default. */
  quota: number | null
}

/** Looks up an API key by its text; null if it is unknown. Synchronous if the key is cached. */
export type ReadApiKey = (text: string) => ApiKeyIdentity | null | Promise<ApiKeyIdentity | null>

export interface IdentifyOptions {
  verify: Verify
  /** Looks up `X-API-Key`; without it, API keys are disabled. */
  readApiKey?: ReadApiKey
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by `authenticate` if a valid `X-API-Key` was sent. */
    apiKey: ApiKeyIdentity | null
    /** Set by `authenticate`: the caller, the reason why the token was rejected, or null if no token was sent. */
    caller: Verification | null
  }
}

const scheme = 'Bearer '

/**
 * Scheme names are case-insensitive (RFC 9110 §11.1), but nearly all clients use the spelling of RFC 6750, which is checked
 * first.
 */
const isBearer = (header: string) =>
  header.startsWith(scheme) || header.slice(0, scheme.length).toLowerCase() === scheme.toLowerCase()

/**
 * Bearer token → `request.caller` (RFC 6750 §2.1), X-API-Key → `request.apiKey`. Never rejects: a request with an invalid
 * token must still count towards the limit of its address.
 */
export const authenticate = fastifyPlugin<IdentifyOptions>(
  async (app, { verify, readApiKey }) => {
    app.decorateRequest('caller', null)
    app.decorateRequest('apiKey', null)
    const identifyCaller = (request: FastifyRequest, done: Done) => {
      const header = request.headers.authorization
      // Other schemes are left to the routes that accept them, such as the token endpoint.
      if (header === undefined || !isBearer(header)) return done()
      const verified = verify(header.slice(scheme.length).trimStart())
      if (!(verified instanceof Promise)) return setCaller(request, verified, done)
      verified.then((result) => setCaller(request, result, done), done)
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
  { name: 'authenticate', dependencies: ['https'] },
)

type Done = (error?: Error) => void

function setCaller(request: FastifyRequest, result: Verification, done: Done): void {
  request.caller = result
  done()
}

/** The caller of a request that passed `authorize`. Throws if there is none, which is a programming error. */
export function callerOf(request: FastifyRequest): Caller {
  const { caller } = request
  if (caller && 'caller' in caller) return caller.caller
  throw new Error('The route reads its caller but does not require one')
}

/** Who sent a request, for the audit log; client and subject are null unless a token was accepted. */
export function auditActor({ caller, id, ip }: FastifyRequest) {
  const known = caller && 'caller' in caller ? caller.caller : undefined
  return { clientId: known?.clientId ?? null, subject: known?.subject ?? null, address: ip, requestId: id }
}
