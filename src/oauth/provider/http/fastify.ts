import {
  errorCodes,
  type FastifyInstance,
  type FastifyPluginAsync,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import { refuseWrongToken } from '../../../http/policies/authorize.ts'
import { keepDocument } from '../../../http/policies/caching.ts'
import { type Answered, lengthOf } from '../../../http/server/access-log.ts'
import type { CurrentServer } from '../../keys/key-ring.ts'
import { apiScopes, type Scopes } from '../../tokens/scopes.ts'
import { endpoints } from './endpoints.ts'
import { bodyLimit, isForm, nameBodyErrors, noteRequestId, takeRawBodies, withBody } from './http-bodies.ts'

export interface MountOptions {
  provider: CurrentServer
  issuer: string
  /** Every scope of the service. */
  scopes: Scopes
  /** The origin of the API, when it is not the issuer's. */
  audience?: string
  /** Called with each response of the provider, which the service's own policies do not see. */
  answered?: (request: FastifyRequest, response: Answered) => void
}

const documentSeconds = 300
const config = { scope: 'own' }
const open = {
  ...{ config, onRequest: refuseWrongToken },
  preHandler: (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    keepDocument(request, reply, documentSeconds)
    done()
  },
}
const unkept = { 'cache-control': 'no-store' }
const { authorization, token, revocation, introspection, jwks, end_session } = endpoints

const programs = [token, revocation, introspection, `${end_session}/confirm`]
/** Where secrets and tokens could be tried out one after the other: they share one limit. */
const guessable = [token, revocation, introspection]
const browsers = [authorization, `${authorization}/:uid`, end_session, `${end_session}/success`]
/** May be sent as forms, too (OpenID Connect Core §3.1.2.1); the cookie of a login comes with the redirect only. */
const forms = [authorization, end_session]
const documents = [jwks, '/.well-known/openid-configuration', '/.well-known/oauth-authorization-server']

/**
 * Serves the authorization server's endpoints and metadata (RFC 8414, OpenID Connect Discovery, RFC 9728). Headers that
 * earlier hooks put on the reply go out with its answers; bodies over 56 KiB get 413, both in the form of RFC 6749 §5.2.
 */
export const mountProvider: FastifyPluginAsync<MountOptions> = async (
  app,
  { provider, issuer, scopes, audience = issuer, answered },
) => {
  const answering = callbackOf(provider)
  const handle = (caching: Record<string, string>) => async (request: FastifyRequest, reply: FastifyReply) => {
    reply.hijack()
    for (const [name, value] of Object.entries({ ...caching, ...reply.getHeaders() })) {
      if (value !== undefined) reply.raw.setHeader(name, value)
    }
    const { raw, body, id } = request
    noteRequestId(reply.raw, id)
    await answering()(body === undefined ? raw : withBody(raw, body as Buffer), reply.raw)
    const { statusCode: status } = reply.raw
    answered?.(request, { status, bytes: lengthOf(reply.raw.getHeader('content-length')) })
  }
  nameBodyErrors(app)
  await app.register(async (scope) => {
    leaveBodies(scope)
    for (const path of programs) {
      const own = guessable.includes(path) ? { ...config, limit: 'token' as const } : config
      // An answer with tokens says it in the words of HTTP/1.0, too (RFC 6749 §5.1).
      scope.post(path, { config: own }, handle(path === token ? { ...unkept, pragma: 'no-cache' } : unkept))
    }
  })
  takeRawBodies(app)
  for (const path of browsers) app.get(path, { config }, handle(unkept))
  for (const path of forms) app.post(path, { config }, asQuery)
  for (const path of documents) app.get(path, open, handle({}))
  app.get('/.well-known/oauth-protected-resource', open, (_request, reply) =>
    reply.send(protectedResource(issuer, audience, apiScopes(scopes))),
  )
}

/** What answers now: another one whenever the keys have changed. */
function callbackOf(server: CurrentServer) {
  let provider = server.current
  let callback = provider.callback()
  return () => {
    if (provider !== server.current) {
      provider = server.current
      callback = provider.callback()
    }
    return callback
  }
}

/** A form as the same request by GET: 303 makes a browser forget the method (RFC 9110 §15.4.4). */
function asQuery({ body, routeOptions, headers }: FastifyRequest, reply: FastifyReply): FastifyReply {
  reply.header('cache-control', 'no-store')
  if (!isForm(headers)) return reply.code(400).send({ error: 'invalid_request', error_description: 'send a form' })
  const query = new URLSearchParams((body as Buffer).toString())
  return reply.redirect(`${routeOptions.url}?${query}`, 303)
}

/** RFC 9728 §2. */
function protectedResource(issuer: string, resource: string, scopes: string[]) {
  return {
    resource,
    authorization_servers: [issuer],
    scopes_supported: scopes,
    bearer_methods_supported: ['header'],
  }
}

/**
 * The provider reads forms itself, and refuses other media types itself; only the size is judged before, and that there is
 * a media type. Where the length is not told that takes the whole body, which is read here then.
 */
function leaveBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (request, payload, done) => {
    const { 'content-length': length, 'content-type': type } = request.headers
    if (type === undefined) return done(new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE())
    if (length === undefined) readWhole(payload).then((body) => done(null, body), done)
    else done(Number(length) > bodyLimit ? new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE() : null)
  })
}

async function readWhole(payload: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of payload) {
    bytes += chunk.length
    if (bytes > bodyLimit) throw new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
