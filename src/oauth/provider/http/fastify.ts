import {
  errorCodes,
  type FastifyInstance,
  type FastifyPluginAsync,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import type Provider from 'oidc-provider'
import { rejectInvalidToken } from '../../../http/policies/authorize.ts'
import { cacheDocument } from '../../../http/policies/caching.ts'
import { lengthOf, type ResponseInfo } from '../../../http/server/access-log.ts'
import { apiScopes, type Scopes } from '../../tokens/scopes.ts'
import type { CurrentServer } from '../current-server.ts'
import { endpoints } from './endpoints.ts'
import { acceptRawBodies, bodyLimit, isForm, renderBodyErrors, storeRequestId, withBody } from './http-bodies.ts'

export interface MountOptions {
  provider: CurrentServer
  issuer: string
  /** All scopes of the service. */
  scopes: Scopes
  /** The API's origin, if different from the issuer. */
  audience?: string
  /** Called for each response of the provider, because such responses bypass the service's own policies. */
  answered?: (request: FastifyRequest, response: ResponseInfo) => void
}

const documentSeconds = 300
const config = { scope: 'own' }
const open = {
  ...{ config, onRequest: rejectInvalidToken },
  preHandler: (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    cacheDocument(request, reply, documentSeconds)
    done()
  },
}
const noStore = { 'cache-control': 'no-store' }
const { authorization, token, revocation, introspection, jwks, end_session } = endpoints

const clientEndpoints = [token, revocation, introspection, `${end_session}/confirm`]
/** Endpoints where secrets and tokens could be guessed; they share one rate limit. */
const guessable = [token, revocation, introspection]
const browserEndpoints = [authorization, `${authorization}/:uid`, end_session, `${end_session}/success`]
/**
 * Endpoints that also accept POST (OpenID Connect Core §3.1.2.1). A POST is redirected to GET, because browsers send no
 * `SameSite=Lax` cookie with a POST from another site.
 */
const formEndpoints = [authorization, end_session]
const documents = [jwks, '/.well-known/openid-configuration', '/.well-known/oauth-authorization-server']

/**
 * Serves the authorization server's endpoints and metadata (RFC 8414, OpenID Connect Discovery, RFC 9728). Responses
 * include the headers set by earlier hooks. Bodies over 56 KiB are rejected with 413; body errors use the format
 * defined in RFC 6749 §5.2.
 */
export const mountProvider: FastifyPluginAsync<MountOptions> = async (
  app,
  { provider, issuer, scopes, audience = issuer, answered },
) => {
  const currentCallback = callbackOf(provider)
  const handle = (caching: Record<string, string>) => async (request: FastifyRequest, reply: FastifyReply) => {
    const callback = await currentCallback()
    reply.hijack()
    for (const [name, value] of Object.entries({ ...caching, ...reply.getHeaders() })) {
      if (value !== undefined) reply.raw.setHeader(name, value)
    }
    const { raw, body, id } = request
    storeRequestId(reply.raw, id)
    await callback(body === undefined ? raw : withBody(raw, body as Buffer), reply.raw)
    const { statusCode: status } = reply.raw
    answered?.(request, { status, bytes: lengthOf(reply.raw.getHeader('content-length')) })
  }
  renderBodyErrors(app)
  await app.register(async (scope) => {
    checkBodies(scope)
    for (const path of clientEndpoints) {
      const own = guessable.includes(path) ? { ...config, limit: 'token' as const } : config
      // A token response also needs the HTTP/1.0 header field Pragma (RFC 6749 §5.1).
      scope.post(path, { config: own }, handle(path === token ? { ...noStore, pragma: 'no-cache' } : noStore))
    }
  })
  acceptRawBodies(app)
  for (const path of browserEndpoints) app.get(path, { config }, handle(noStore))
  for (const path of formEndpoints) app.post(path, { config }, redirectToGet)
  for (const path of documents) app.get(path, open, handle({}))
  app.get('/.well-known/oauth-protected-resource', open, (_request, reply) =>
    reply.send(protectedResource(issuer, audience, apiScopes(scopes))),
  )
}

/** Returns a getter for the current request handler, which is replaced whenever the signing keys change. */
function callbackOf(server: CurrentServer) {
  const callbacks = new WeakMap<Provider, ReturnType<Provider['callback']>>()
  return async () => {
    const provider = await server.current
    const callback = callbacks.get(provider) ?? provider.callback()
    callbacks.set(provider, callback)
    return callback
  }
}

/** Redirects a form POST to a GET with the same parameters; 303 makes browsers change the method (RFC 9110 §15.4.4). */
function redirectToGet({ body, routeOptions, headers }: FastifyRequest, reply: FastifyReply): FastifyReply {
  reply.header('cache-control', 'no-store')
  if (!isForm(headers)) {
    const error_description = 'the body must be application/x-www-form-urlencoded'
    return reply.code(400).send({ error: 'invalid_request', error_description })
  }
  const query = new URLSearchParams((body as Buffer).toString())
  return reply.redirect(`${routeOptions.url}?${query}`, 303)
}

/** Returns the protected resource metadata (RFC 9728 §2). */
function protectedResource(issuer: string, resource: string, scopes: string[]) {
  return {
    resource,
    authorization_servers: [issuer],
    scopes_supported: scopes,
    bearer_methods_supported: ['header'],
  }
}

/**
 * Lets the provider parse forms and reject other media types; checks only the body size and that a media type is
 * specified. Without Content-Length, checking the size requires reading the whole body.
 */
function checkBodies(app: FastifyInstance): void {
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
