import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import Fastify, { type FastifyInstance, type InjectOptions } from 'fastify'
import { authenticate, type TokenVerification, type Verify } from '../../src/http/policies/authenticate.ts'
import { authorize } from '../../src/http/policies/authorize.ts'
import { bodyParsing } from '../../src/http/policies/body-parsing.ts'
import { caching } from '../../src/http/policies/caching.ts'
import { compression } from '../../src/http/policies/compression.ts'
import { conditional } from '../../src/http/policies/conditional.ts'
import { contentNegotiation } from '../../src/http/policies/content-negotiation.ts'
import { cors } from '../../src/http/policies/cors.ts'
import { https } from '../../src/http/policies/https.ts'
import { methods } from '../../src/http/policies/methods.ts'
import { partialResponse } from '../../src/http/policies/partial-response.ts'
import { requestIntegrity } from '../../src/http/policies/request-integrity.ts'
import { errorHandler } from '../../src/http/problems/error-handler.ts'
import { type AccessLine, accessLog, arrival } from '../../src/http/server/access-log.ts'
import { handleUnrouted } from '../../src/http/server/parser-errors.ts'
import { type ServerSettings, serverOptions } from '../../src/http/server/server-options.ts'
import { later as realLater } from '../support/timers.ts'

export const baseUrl = 'https://plinth.test'

/** Accepts the tokens `reader` and `writer`; `expired` has expired, and any other token is invalid. */
export const verify = (token: string): TokenVerification => {
  if (token === 'expired') return { refused: 'AUTH_TOKEN_EXPIRED' }
  const scopes = { reader: ['things:read'], writer: ['things:read', 'things:write'] }[token]
  if (scopes === undefined) return { refused: 'AUTH_TOKEN_INVALID' }
  return { caller: { clientId: `cli_${token}`, subject: 'usr_1', scopes: new Set(scopes) } }
}

export interface Mounted {
  app: FastifyInstance
  clock: { now: number }
  /** Errors with status 500 or above, including details that clients must not see. */
  faults: unknown[]
  lines: AccessLine[]
}

interface Settings {
  verify?: Verify
  trustedProxies?: string[]
  isUnavailable?: (error: unknown) => boolean
  bodyLimit?: number
  corsOrigins?: string[]
  /** Shorter request timeouts for tests. */
  timeouts?: ServerSettings['timeouts']
  later?: ServerSettings['later']
  tls?: ServerSettings['tls']
}

/** Policies as registered in `app.ts`, each with the policies on which it depends. */
const policies = {
  arrival: { needs: [], register: ({ app }) => app.register(arrival) },
  errorHandler: {
    needs: [],
    register: ({ app, clock, faults }, { isUnavailable = () => false }) =>
      app.register(errorHandler, {
        baseUrl,
        isUnavailable,
        now: () => clock.now,
        onFault: (error) => faults.push(error),
      }),
  },
  https: {
    needs: [],
    register: ({ app }, { trustedProxies = ['127.0.0.1'] }) => app.register(https, { baseUrl, trustedProxies }),
  },
  cors: {
    needs: ['https'],
    register: ({ app }, { corsOrigins = [] }) => app.register(cors, { corsOrigins }),
  },
  requestIntegrity: {
    needs: ['errorHandler', 'https'],
    register: ({ app }) => app.register(requestIntegrity, { baseUrl }),
  },
  authenticate: {
    needs: ['https'],
    register: ({ app }, settings) => app.register(authenticate, { verify, ...settings }),
  },
  authorize: { needs: ['authenticate'], register: ({ app }) => app.register(authorize) },
  methods: { needs: ['errorHandler'], register: ({ app }) => app.register(methods) },
  contentNegotiation: { needs: ['authorize', 'methods'], register: ({ app }) => app.register(contentNegotiation) },
  bodyParsing: { needs: ['errorHandler', 'authorize'], register: ({ app }) => app.register(bodyParsing) },
  partialResponse: { needs: ['bodyParsing'], register: ({ app }) => app.register(partialResponse) },
  caching: { needs: ['errorHandler'], register: ({ app, clock }) => app.register(caching, { now: () => clock.now }) },
  conditional: { needs: ['partialResponse', 'caching'], register: ({ app }) => app.register(conditional) },
  compression: { needs: ['conditional', 'caching'], register: ({ app }) => app.register(compression) },
  accessLog: {
    needs: ['arrival', 'conditional'],
    register: ({ app, lines }) => app.register(accessLog, { write: (line) => lines.push(line) }),
  },
} satisfies Record<
  string,
  { needs: string[]; register: (mounted: Mounted, settings: Settings) => PromiseLike<unknown> }
>

type Policy = keyof typeof policies

const withNeeds = (name: string): string[] => [name, ...policies[name as Policy].needs.flatMap(withNeeds)]

/** Builds an app with the given routes, the named policies and their dependencies, in the same order as `app.ts`. */
export async function mount(
  names: Policy[],
  routes: (app: FastifyInstance) => void,
  settings: Settings = {},
): Promise<Mounted> {
  const clock = { now: Date.parse('2026-03-01T12:00:00.500Z') }
  const faults: unknown[] = []
  const { isUnavailable = () => false, trustedProxies = ['127.0.0.1'], corsOrigins = [], timeouts = {} } = settings
  const { later = realLater, tls = null } = settings
  const failures = {
    ...{ baseUrl, isUnavailable, now: () => clock.now },
    onFault: (error: unknown) => faults.push(error),
  }
  const options = serverOptions({ ...failures, tls, trustedProxies, corsOrigins, timeouts, later })
  const app: FastifyInstance = Fastify({ ...options, bodyLimit: settings.bodyLimit ?? options.bodyLimit })
  handleUnrouted(app.server, { ...failures, later })
  const mounted: Mounted = { app, clock, faults, lines: [] }
  const wanted = new Set(names.flatMap(withNeeds))
  for (const [name, { register }] of Object.entries(policies)) if (wanted.has(name)) await register(mounted, settings)
  routes(app)
  await app.ready()
  return mounted
}

/** Sends a request that appears to arrive over HTTPS, without a token by default. */
export function send({ app }: Pick<Mounted, 'app'>, request: InjectOptions & { token?: string }) {
  const { token, headers, ...rest } = request
  const bearer = token ? { authorization: `Bearer ${token}` } : {}
  return app.inject({ ...rest, headers: { 'x-forwarded-proto': 'https', ...bearer, ...headers } })
}

/**
 * Sends the lines and the body unchanged, and reads until the service closes the connection; the request should include
 * `Connection: close`.
 */
export async function sendRaw({ app }: Pick<Mounted, 'app'>, lines: string[], body = '') {
  if (!app.server.listening) await app.listen({ host: '127.0.0.1', port: 0 })
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
  await once(socket, 'connect')
  socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`)
  const answer = await text(socket)
  const [head = '', ...rest] = answer.split('\r\n\r\n')
  const headers = head
    .split('\r\n')
    .slice(1)
    .map((line): [string, string] => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    })
  return { status: Number(head.split(' ')[1]), headers: Object.fromEntries(headers), body: rest.join('\r\n\r\n') }
}
