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

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by `identify`: the caller, why the token was refused, or null when none was sent. */
    caller: Verification | null
  }
}

const scheme = 'bearer '

/** Bearer token → `request.caller` (RFC 6750 §2.1). Never rejects: a wrong token must still be counted by address. */
export const identify = fastifyPlugin<{ verify: Verify }>(
  async (app, { verify }) => {
    app.decorateRequest('caller', null)
    app.addHook('onRequest', (request, _reply, done) => {
      const header = request.headers.authorization
      // Another scheme is no bearer token: the routes that take it, such as the token endpoint, read it themselves.
      if (header === undefined || header.slice(0, scheme.length).toLowerCase() !== scheme) return done()
      const verified = verify(header.slice(scheme.length).trimStart())
      if (!(verified instanceof Promise)) return remember(request, verified, done)
      verified.then((result) => remember(request, result, done), done)
    })
  },
  { name: 'identify', dependencies: ['https'] },
)

function remember(request: FastifyRequest, result: Verification, done: () => void): void {
  request.caller = result
  done()
}

/** The caller of a request that passed `authorize`; a programming error when there is none. */
export function callerOf(request: FastifyRequest): Caller {
  const { caller } = request
  if (caller && 'caller' in caller) return caller.caller
  throw new Error('The route reads its caller but does not require one')
}
