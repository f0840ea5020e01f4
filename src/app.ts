import type { ServerOptions } from 'node:https'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import type Provider from 'oidc-provider'
import { mount } from './auth/mount.ts'
import { keptAnswers } from './db/answers.ts'
import type { Definition } from './definition.ts'
import { documentation } from './documentation.ts'
import { acceptable } from './http/acceptable.ts'
import { authorize } from './http/authorize.ts'
import { bodies } from './http/bodies.ts'
import { caching } from './http/caching.ts'
import { compression } from './http/compression.ts'
import { conditional } from './http/conditional.ts'
import { cors } from './http/cors.ts'
import { docs } from './http/docs.ts'
import { errors } from './http/errors.ts'
import { fields } from './http/fields.ts'
import { health } from './http/health.ts'
import { https } from './http/https.ts'
import { idempotency } from './http/idempotency.ts'
import { identify, type Verify } from './http/identify.ts'
import { type Access, accessLine, accessLog, arrival } from './http/log.ts'
import { methods } from './http/methods.ts'
import { openapi } from './http/openapi.ts'
import { answerUnrouted } from './http/parser-errors.ts'
import { prefer } from './http/prefer.ts'
import { problemPages } from './http/problem-pages.ts'
import { type ServerSettings, serverOptions } from './http/server-options.ts'
import { wellFormed } from './http/well-formed.ts'
import { webhookKeySet } from './resources/webhooks/routes.ts'
import type { WebhookKeys } from './resources/webhooks/secrets.ts'
import { serveVersions, type VersionOptions } from './versions.ts'

export interface AppOptions extends VersionOptions {
  /** What is served. */
  definition: Definition
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
  /** The origins whose pages may call. */
  corsOrigins: readonly string[]
  patience?: ServerSettings['patience']
  /** The release, as the OpenAPI document names it. */
  version?: string
  log: { access: Access; fault: (error: unknown, requestId: string) => void }
  /** Told of each answered request whose client is known. */
  count: (clientId: string) => void
}

/** The HTTP service on one page: policies in the order a request meets them, then what is served. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { definition, db, sealer, verify, now, baseUrl, trustedProxies, corsOrigins, provider, api, log, count } =
    options
  const failures = { baseUrl, now, isUnavailable: db.engine.isUnavailable, onFault: log.fault }
  const app = Fastify(serverOptions({ ...options, ...failures }))
  answerUnrouted(app.server, failures)
  const access: Access = (line) => {
    if (line.client !== undefined) count(line.client)
    log.access(line)
  }

  await app.register(arrival)
  await app.register(errors, failures)
  await app.register(https, { baseUrl, trustedProxies })
  await app.register(cors, { corsOrigins })
  await app.register(wellFormed, { baseUrl })
  await app.register(identify, { verify })
  await app.register(authorize)
  await app.register(methods)
  await app.register(acceptable)
  await app.register(bodies)
  await app.register(idempotency, { answers: { ...keptAnswers(db, sealer, now), write: db.write } })
  await app.register(fields)
  await app.register(caching, { now })
  await app.register(conditional)
  await app.register(prefer)
  await app.register(compression)
  await app.register(accessLog, { write: access })

  await app.register(openapi, documentation(definition, baseUrl, options.version ?? 'development'))
  await app.register(health, { check: db.ping, now })
  await app.register(webhookKeySet, { keys: options.webhookKeys })
  await app.register(problemPages, { baseUrl })
  await app.register(docs)
  const answered = (request: FastifyRequest, status: number) => access(accessLine(request, status))
  if (provider) await app.register(mount, { provider, issuer: baseUrl, scopes: definition.scopes, answered })
  if (api) await serveVersions(app, definition, options)
  return app
}
