import type { ServerOptions } from 'node:https'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import type Provider from 'oidc-provider'
import { mount } from './auth/mount.ts'
import { documentation } from './documentation.ts'
import { authorize } from './http/authorize.ts'
import { bodies } from './http/bodies.ts'
import { caching } from './http/caching.ts'
import { conditional } from './http/conditional.ts'
import { errors } from './http/errors.ts'
import { fields } from './http/fields.ts'
import { health } from './http/health.ts'
import { https } from './http/https.ts'
import { identify, type Verify } from './http/identify.ts'
import { type Access, accessLine, accessLog, arrival } from './http/log.ts'
import { methods } from './http/methods.ts'
import { openapi } from './http/openapi.ts'
import { problemPages } from './http/problem-pages.ts'
import { serverOptions } from './http/server-options.ts'
import { webhookKeySet } from './resources/webhooks/routes.ts'
import type { WebhookKeys } from './resources/webhooks/secrets.ts'
import { serveVersions } from './versions.ts'

type Served = Parameters<typeof serveVersions>[1]

export interface AppOptions extends Served {
  verify: Verify
  /** The authorization server, where this process is one. */
  provider: Provider | null
  webhookKeys: WebhookKeys
  /** Whether this process serves the resources. */
  api: boolean
  /** The service's origin, as clients see it. */
  baseUrl: string
  /** Key and certificate; without them the service speaks plain HTTP behind a proxy that speaks HTTPS. */
  tls: ServerOptions | null
  trustedProxies: readonly string[]
  /** The release, as the OpenAPI document names it. */
  version?: string
  log: { access: Access; fault: (error: unknown, requestId: string) => void }
  /** Told of each answered request whose client is known. */
  count: (clientId: string) => void
}

/** The HTTP service on one page: policies in the order a request meets them, then what is served. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { db, verify, now, baseUrl, trustedProxies, provider, api, log, count } = options
  const failures = { baseUrl, now, isUnavailable: db.engine.isUnavailable, onFault: log.fault }
  const app = Fastify(serverOptions(options.tls, failures))
  const access: Access = (line) => {
    if (line.client !== undefined) count(line.client)
    log.access(line)
  }

  await app.register(arrival)
  await app.register(errors, failures)
  await app.register(methods)
  await app.register(https, { baseUrl, trustedProxies })
  await app.register(identify, { verify })
  await app.register(authorize)
  await app.register(bodies)
  await app.register(fields)
  await app.register(caching, { now })
  await app.register(conditional)
  await app.register(accessLog, { write: access })

  await app.register(openapi, documentation(baseUrl, options.version ?? 'development'))
  await app.register(health, { check: db.ping, now })
  await app.register(webhookKeySet, { keys: options.webhookKeys })
  await app.register(problemPages, { baseUrl })
  const answered = (request: FastifyRequest, status: number) => access(accessLine(request, status))
  if (provider) await app.register(mount, { provider, issuer: baseUrl, answered })
  if (api) await serveVersions(app, options)
  return app
}
