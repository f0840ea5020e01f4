import type { ServerOptions } from 'node:https'
import Fastify, { type FastifyInstance } from 'fastify'
import { type Audit, refusals } from './audit/buffer.ts'
import { ownFields } from './catalog/own-fields.ts'
import { userinfoReader } from './catalog/user-rows.ts'
import { type ConsoleClient, consolePages } from './console/routes.ts'
import type { Definition } from './definition/service.ts'
import { documentation } from './documentation.ts'
import { ResultsUnavailable } from './files/store.ts'
import { home } from './home.ts'
import { fastPath } from './http/fast-path/fast-path.ts'
import { authenticate, type ReadApiKey, type Verify } from './http/policies/authenticate.ts'
import { authorize } from './http/policies/authorize.ts'
import { bodyParsing } from './http/policies/body-parsing.ts'
import { caching } from './http/policies/caching.ts'
import { compression } from './http/policies/compression.ts'
import { conditional } from './http/policies/conditional.ts'
import { contentNegotiation } from './http/policies/content-negotiation.ts'
import { cors } from './http/policies/cors.ts'
import { https } from './http/policies/https.ts'
import { listEnvelope } from './http/policies/list-envelope.ts'
import { methods } from './http/policies/methods.ts'
import { loadShedder, type OverloadOptions, overload } from './http/policies/overload.ts'
import { partialResponse } from './http/policies/partial-response.ts'
import { prefer } from './http/policies/prefer.ts'
import { requestIntegrity } from './http/policies/request-integrity.ts'
import { serialize } from './http/policies/serialize.ts'
import { errorHandler } from './http/problems/error-handler.ts'
import { problemPages } from './http/problems/problem-pages.ts'
import {
  accessLog,
  arrival,
  responseLog,
  type StartRequestSpan,
  type WriteAccessLine,
} from './http/server/access-log.ts'
import { health } from './http/server/health.ts'
import { handleUnrouted } from './http/server/parser-errors.ts'
import { type ServerSettings, serverOptions } from './http/server/server-options.ts'
import { cutStalled } from './http/server/write-stalls.ts'
import { idempotency } from './idempotency/policy.ts'
import { storedResponses } from './idempotency/store.ts'
import type { Metrics } from './metrics/metrics.ts'
import { metricsRoute } from './metrics/route.ts'
import { enclosingPrefixes, firstCallsOf, resourcePaths, serveVersions, type VersionOptions } from './mount-versions.ts'
import type { CurrentServer } from './oauth/provider/current-server.ts'
import { type RevocationEpoch, trackRevocations } from './oauth/tokens/revocation-epoch.ts'
import type { UserParts } from './oauth/users/users.ts'
import { counting } from './observation.ts'
import { docs } from './openapi/reference-page.ts'
import { openapi } from './openapi/routes.ts'
import { type Limiter, type LimiterOptions, limiter } from './rate-limits/limiter.ts'
import { limits } from './rate-limits/policy.ts'
import type { SharedClock } from './storage/clock.ts'
import { deprecation } from './versioning/deprecation.ts'
import { retirement, versionRefusals } from './versioning/retirement.ts'
import { webhookKeySet } from './webhooks/secret-routes.ts'
import type { WebhookKeys } from './webhooks/secrets.ts'

export interface AppOptions extends Omit<VersionOptions, keyof UserParts | 'report'>, ConsoleClient {
  definition: Definition
  verify: Verify
  revocations?: RevocationEpoch
  /** The authorization server, if this process runs one. */
  provider: CurrentServer | null
  people: UserParts
  /** The OAuth client that the API reference uses to log users in, if any. */
  docsClientId?: string | null
  /** Whether the console is served. */
  console?: boolean
  readApiKey?: ReadApiKey
  /** The audit log for events that anyone can trigger, such as rejected requests. */
  audit?: Pick<Audit, 'tally'>
  webhookKeys: WebhookKeys
  /** Whether this process serves the resources. */
  api: boolean
  /** The service's public origin. */
  baseUrl: string
  /** Private key and certificate; null for plain HTTP behind a proxy that terminates TLS. */
  tls: ServerOptions | null
  clock?: Pick<SharedClock, 'isUsable'>
  trustedProxies: readonly string[]
  corsOrigins: readonly string[]
  /** Rate limits and their counters. If omitted, nothing is limited. */
  limits?: Pick<LimiterOptions, 'rules' | 'counters' | 'memory' | 'monotonic'>
  /** Load limits. If omitted, no request is rejected because of load. */
  overload?: Omit<OverloadOptions, 'later'>
  timeouts?: ServerSettings['timeouts']
  http2?: ServerSettings['http2']
  /** Aborted when the service starts to shut down. */
  stopping?: AbortSignal
  version?: string
  metrics: Pick<Metrics, 'read' | 'onResponse' | 'onLimited' | 'onDelayed'>
  log: { access: WriteAccessLine; fault: (error: unknown, requestId: string, traceId?: string) => void }
  /** Whether the fast path may send cached responses; default true. While traces are exported, it sends none. */
  fastPath?: boolean
  /** Starts the span of each request, if traces are exported. */
  startRequestSpan?: StartRequestSpan | undefined
  /** Records a response; called for every response. */
  onResponse: WriteAccessLine
  /** Called for every response from a deprecated version; `clientId` is null for an anonymous client. */
  countDeprecated: (version: string, clientId: string | null) => void
}

/** Builds the HTTP service: adds the policies, in the order in which they apply to a request, then the routes. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { definition, db, sealer, verify, readApiKey, now, baseUrl, trustedProxies, corsOrigins } = options
  const { api, log, lifecycles } = options
  const { onDenied, onPlaintext } = refusals(options.audit)
  const isUnavailable = (error: unknown) => error instanceof ResultsUnavailable || db.engine.isUnavailable(error)
  const failures = { baseUrl, now, isUnavailable, onFault: log.fault, onDenied }
  const app = Fastify(serverOptions({ ...options, ...failures, beforeRouterError: versionRefusals(lifecycles) }))
  handleUnrouted(app.server, { ...options, ...failures })
  cutStalled(app.server, options)
  const [access, counted, shedder] = [counting(options), limiting(options), shedding(options)]

  await app.register(arrival, options.startRequestSpan ? { startSpan: options.startRequestSpan } : {})
  await app.register(errorHandler, failures)
  await app.register(serialize)
  await app.register(https, { baseUrl, trustedProxies, ...(onPlaintext && { onPlaintext }) })
  await app.register(deprecation, { lifecycles })
  await app.register(cors, { corsOrigins })
  if (shedder) await app.register(overload, shedder)
  await app.register(requestIntegrity, { baseUrl })
  await app.register(authenticate, { verify, ...(readApiKey && { readApiKey }) })
  if (counted) await app.register(limits, { limiter: counted })
  await app.register(retirement, { lifecycles })
  await app.register(authorize, counted ? { onRefused: counted.refund } : {})
  await app.register(methods)
  await app.register(contentNegotiation)
  await app.register(bodyParsing)
  await app.register(idempotency, { answers: { ...storedResponses(db, sealer, now), write: db.write } })
  await app.register(partialResponse)
  await app.register(listEnvelope, { prefixes: enclosingPrefixes(definition) })
  await app.register(caching, { now })
  await app.register(conditional)
  await app.register(prefer)
  await app.register(compression)
  await app.register(accessLog, { write: access })
  if (isFastPathOn(options, counted))
    await app.register(fastPath, { verify, readApiKey, admitLater: counted?.admitAtOnce, shedder, write: access, now })

  if (options.revocations) await app.register(trackRevocations, { revocations: options.revocations })
  await serveUnversioned(app, options)
  await serveAuthorization(app, options, access)
  const versions = { ...options, ...options.people, report: log.fault, ...(counted && { limiter: counted }) }
  if (api) await serveVersions(app, definition, versions)
  return app
}

/** Returns whether to use the fast path, which supports neither traces nor shared rate-limit counters. */
const isFastPathOn = ({ fastPath = true, startRequestSpan }: AppOptions, counted?: Limiter) =>
  fastPath && !startRequestSpan && counted?.admitAtOnce !== null

/** Adds the unversioned routes, which provide information about the service itself. */
async function serveUnversioned(app: FastifyInstance, options: AppOptions): Promise<void> {
  const { definition, lifecycles, baseUrl, db, clock, now, metrics, version = 'development' } = options
  const { stopping = new AbortController().signal } = options
  const documents = documentation(definition, lifecycles, { baseUrl, version })
  await app.register(openapi, { documents })
  await app.register(health, { check: db.ping, isClockUsable: clock?.isUsable, now, stopping })
  await app.register(metricsRoute, metrics)
  await app.register(webhookKeySet, { keys: options.webhookKeys })
  await app.register(problemPages, { baseUrl, frame: options.people.frame })
  const firstCalls = firstCallsOf(definition, options)
  await app.register(docs, { documents, baseUrl, firstCalls, clientId: options.docsClientId ?? null })
  if (options.console) await app.register(consolePages, options)
  const resources = options.api ? resourcePaths(definition, lifecycles) : {}
  const paths = { documents: Object.keys(documents), resources }
  const has = { hasDiscovery: options.provider !== null, hasConsole: options.console === true }
  await app.register(home, { ...options.people, ...paths, ...has, version })
}

/** Adds the authorization server and its pages, if this process runs one. */
async function serveAuthorization(app: FastifyInstance, options: AppOptions, access: WriteAccessLine): Promise<void> {
  const { provider, definition, db, sealer, now, audit, baseUrl, log } = options
  if (!provider) return
  const [{ interactions }, { invitationPage }, { mountProvider }, { userinfo }] = await Promise.all([
    import('./oauth/pages/interactions.ts'),
    import('./oauth/pages/invitation-page.ts'),
    import('./oauth/provider/http/fastify.ts'),
    import('./oauth/provider/userinfo.ts'),
  ])
  const { scopes } = definition
  const pages = { ...options.people, isUnavailable: db.engine.isUnavailable, report: log.fault }
  await app.register(mountProvider, { provider, issuer: baseUrl, scopes, answered: responseLog(access) })
  await app.register(userinfo, { db, ...(definition.users && { readAdded: userinfoReader(db, definition.users) }) })
  const about = { provider, scopes, db, sealer, now }
  await app.register(interactions, { ...pages, ...about, ...(audit && { audit }) })
  await app.register(invitationPage, { ...pages, own: definition.users && ownFields(options, definition.users) })
}

/** Returns a load shedder and starts its measurements; returns undefined if load shedding is off. */
const shedding = ({ overload, later }: AppOptions) => overload && loadShedder({ ...overload, later })

/** Returns the rate limiter; undefined if there are no limits. */
function limiting({ limits, trustedProxies, now, later, log, metrics: { onLimited, onDelayed } }: AppOptions) {
  const onError = (error: unknown) => log.fault(error, 'limits')
  return limits && limiter({ ...limits, trustedProxies, now, later, onError, onLimited, onDelayed })
}
