import type { FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'

/** Who is asking: the client that holds the token and the subject it acts for (the client itself, or a user). */
export interface Caller {
  clientId: string
  subject: string
  scopes: ReadonlySet<string>
}

/** What became of a bearer token. */
export type Verification = { caller: Caller } | { refused: 'AUTH_TOKEN_EXPIRED' | 'AUTH_TOKEN_INVALID' }

/** Judges a bearer token; answers at once for a token it remembers. */
export type Verify = (token: string) => Verification | Promise<Verification>

/** The API key of a request: it says whose limits count, and gives no access to anything. */
export interface ApiKeyIdentity {
  id: string
  /** `calls/seconds`; null for the service's own. */
  rate: string | null
  /** Requests a month; null for the service's own. */
  quota: number | null
}

/** Knows a key by its text, null for any other text; answers at once for a key it remembers. */
export type ReadApiKey = (text: string) => ApiKeyIdentity | null | Promise<ApiKeyIdentity | null>

export interface IdentifyOptions {
  verify: Verify
  /** Reads `X-API-Key`; without it there are no keys. */
  readApiKey?: ReadApiKey
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by `identify` where a good `X-API-Key` was sent. */
    apiKey: ApiKeyIdentity | null
    /** Set by `identify`: the caller, why the token was refused, or null when none was sent. */
    caller: Verification | null
  }
}

const scheme = 'Bearer '

/** Schemes have no case (RFC 9110 §11.1), but nearly everybody writes this one as its RFC does. */
const isBearer = (header: string) =>
  header.startsWith(scheme) || header.slice(0, scheme.length).toLowerCase() === scheme.toLowerCase()

/**
 * Bearer token → `request.caller` (RFC 6750 §2.1), X-API-Key → `request.apiKey`. Never rejects: a wrong token must still
 * be counted by address.
 */
export const identify = fastifyPlugin<IdentifyOptions>(
  async (app, { verify, readApiKey }) => {
    app.decorateRequest('caller', null)
    app.decorateRequest('apiKey', null)
    const identifyCaller = (request: FastifyRequest, done: Done) => {
      const header = request.headers.authorization
      // Another scheme is no bearer token: the routes that take it, such as the token endpoint, read it themselves.
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

/** The caller of a request that passed `authorize`; a programming error when there is none. */
export function callerOf(request: FastifyRequest): Caller {
  const { caller } = request
  if (caller && 'caller' in caller) return caller.caller
  throw new Error('The route reads its caller but does not require one')
}

/** Who sent a request, as the audit log names them; nobody where no token was accepted. */
export function auditActor({ caller, id, ip }: FastifyRequest) {
  const known = caller && 'caller' in caller ? caller.caller : undefined
  return { clientId: known?.clientId ?? null, subject: known?.subject ?? null, address: ip, requestId: id }
}
