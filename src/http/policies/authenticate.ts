import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'

/**
 * The caller: the client that presented the token, and the subject on whose behalf it acts (a user or the client itself).
 */
export interface Caller {
  clientId: string
  subject: string
  scopes: ReadonlySet<string>
  /** The trace context of the request, set by `authorOf`. Events and jobs caused by the request inherit it. */
  trace?: string
  /** Limits of this client's accounts; absent if the service's limits apply. */
  limits?: OwnLimits
}

/**
 * Limits of an account: a rate as `calls/seconds`, and requests per month. Null means that the service's limit applies.
 */
export interface OwnLimits {
  rate: string | null
  quota: number | null
}

/** Returns whether a subject is a user id; other subjects are machine clients or belong to another issuer. */
export const isUserId = (subject: string): boolean => /^[1-9]\d{0,8}$/.test(subject)

/** The result of verifying a bearer token. */
export type TokenVerification = { caller: Caller } | { refused: 'AUTH_TOKEN_EXPIRED' | 'AUTH_TOKEN_INVALID' }

/** Verifies bearer tokens. */
export interface Verify {
  /** Verifies a token; synchronous if the result is cached. */
  (token: string): TokenVerification | Promise<TokenVerification>
  /**
   * Returns a function that reads the cached result for a token: the same object until the result changes, or undefined
   * if the token must be verified.
   */
  known?: (token: string) => () => TokenVerification | undefined
}

/** The API key of a request. It determines which rate limits apply but grants no access. */
export interface ApiKeyIdentity extends OwnLimits {
  id: string
}

/** Looks up API keys. */
export interface ReadApiKey {
  /** Looks up a key by its text; returns null if it is unknown. Synchronous if the result is cached. */
  (text: string): ApiKeyIdentity | null | Promise<ApiKeyIdentity | null>
  /** Returns the cached result for a key, and records the use of the key; undefined if the key must be looked up. */
  known?: (text: string) => ApiKeyIdentity | null | undefined
}

export interface IdentifyOptions {
  verify: Verify
  /** Looks up the value of `X-API-Key`. If omitted, API keys are disabled. */
  readApiKey?: ReadApiKey
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by `authenticate` if the request has a valid `X-API-Key`. */
    apiKey: ApiKeyIdentity | null
    /** Set by `authenticate`: the caller, the reason why the token was rejected, or null if the request has no token. */
    caller: TokenVerification | null
  }
}

const scheme = 'Bearer '

/**
 * Returns whether the Authorization scheme is Bearer. Scheme names are case-insensitive (RFC 9110 §11.1), but nearly all
 * clients use the spelling in RFC 6750, which is checked first.
 */
const isBearer = (header: string) =>
  header.startsWith(scheme) || header.slice(0, scheme.length).toLowerCase() === scheme.toLowerCase()

/** Returns the bearer token. Other schemes are left to the routes that accept them, such as the token endpoint. */
export const bearerToken = ({ authorization }: IncomingHttpHeaders): string | undefined =>
  authorization !== undefined && isBearer(authorization) ? authorization.slice(scheme.length).trimStart() : undefined

/**
 * Sets `request.caller` from the bearer token (RFC 6750 §2.1) and `request.apiKey` from X-API-Key. Does not reject an
 * invalid token, because the request must still count towards the rate limit of its address.
 */
export const authenticate = fastifyPlugin<IdentifyOptions>(
  async (app, { verify, readApiKey }) => {
    app.decorateRequest('caller', null)
    app.decorateRequest('apiKey', null)
    const identifyCaller = (request: FastifyRequest, done: Done) => {
      const token = bearerToken(request.headers)
      if (token === undefined) return done()
      const verified = verify(token)
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

function setCaller(request: FastifyRequest, result: TokenVerification, done: Done): void {
  request.caller = result
  done()
}

/** Returns the caller of a request that passed `authorize`. Throws if there is no caller, which is a programming error. */
export function callerOf(request: FastifyRequest): Caller {
  const { caller } = request
  if (caller && 'caller' in caller) return caller.caller
  throw new Error('The route reads its caller but does not require one')
}

/** Returns the caller of a request that writes, with the trace context of the request. */
export function authorOf(request: FastifyRequest): Caller {
  const { trace } = request
  return trace === null ? callerOf(request) : { ...callerOf(request), trace }
}

/** Identifies the sender of a request for the audit log; client and subject are null unless a token was accepted. */
export function auditActor({ caller, id, ip }: FastifyRequest) {
  const known = caller && 'caller' in caller ? caller.caller : undefined
  return { clientId: known?.clientId ?? null, subject: known?.subject ?? null, address: ip, requestId: id }
}
