import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { auditRoutes } from './audit/routes.ts'
import { userRows } from './catalog/user-rows.ts'
import { accountRules } from './code/accounts.ts'
import { serviceCode } from './code/author-code.ts'
import type { CodeServices } from './code/services.ts'
import type { Definition } from './definition/service.ts'
import { eventsIn, servedVersions } from './event-shapes.ts'
import { defaultDownloadsPerAccount, defaultUploadsPerAccount, maxUploadsInAll, slotLimiter } from './files/slots.ts'
import { maxDownloadsInAll } from './files/store.ts'
import type { Caller } from './http/policies/authenticate.ts'
import { checkTarget } from './http/ssrf-guard.ts'
import { rejectUnknownParameters } from './http/strict-handling.ts'
import { type JobRoutesOptions, jobRoutes } from './jobs/routes.ts'
import { metricsHistory } from './metrics/history/route.ts'
import { nodeRoutes } from './nodes/routes.ts'
import { apiKeyRoutes } from './oauth/api-keys/routes.ts'
import { clientRoutes } from './oauth/clients/routes.ts'
import { type KeyRouteOptions, signingKeyRoutes } from './oauth/keys/routes.ts'
import type { RevocationEpoch } from './oauth/tokens/revocation-epoch.ts'
import { accessRoutes } from './oauth/users/access-routes.ts'
import { type AccountRouteOptions, accountRoutes } from './oauth/users/account-routes.ts'
import { type InvitationRouteOptions, invitationRoute } from './oauth/users/invitation-route.ts'
import { type Operations, operationRoutes } from './operations/routes.ts'
import { queueRoutes } from './queue/routes.ts'
import { accountUsage } from './rate-limits/account-usage.ts'
import type { Limiter } from './rate-limits/limiter.ts'
import { usageRoute } from './rate-limits/usage.ts'
import { activity, deliveries } from './reports/built-in-types.ts'
import { tableReport, typedReport } from './reports/generate/table-report.ts'
import type { ServedReport } from './reports/report-types.ts'
import type { ReportsOptions } from './reports/route-parts.ts'
import { reports } from './reports/routes.ts'
import { taskStates } from './reports/tasks.ts'
import { defaultWaitersPerAccount, type Later, watchTasks } from './reports/wait-for-change.ts'
import type { CollectionOptions, Declaration } from './resources/declaration.ts'
import { declaredReport } from './resources/reports/report.ts'
import { reportOf } from './resources/representation.ts'
import { type ChangeFeedOptions, changeFeed } from './resources/streams/change-feed.ts'
import { type RowAccessOptions, rowAccess } from './row-access.ts'
import { serveCollections } from './serving/collections.ts'
import type { Queryable } from './storage/database.ts'
import { uuidSource } from './storage/ids.ts'
import { repeatingWrites } from './storage/repeating-writes.ts'
import { type RequestRoutesOptions, requestRoutes } from './traffic/request-routes.ts'
import { trafficRoute } from './traffic/routes.ts'
import { readVersionCalls } from './versioning/call-counts.ts'
import { versionList } from './versioning/routes.ts'
import type { VersionStatus } from './versioning/version-of-path.ts'
import { webhooks } from './webhooks/routes.ts'
import type { WebhooksOptions } from './webhooks/webhooks-options.ts'

/** The options shared by all API versions; event types and access rules come from the definition. */
export type VersionOptions = Omit<CollectionOptions, 'factsOf' | 'newUuid' | 'code'> &
  Omit<ReportsOptions, 'access'> &
  Omit<InvitationRouteOptions, 'roles'> &
  Omit<WebhooksOptions, 'events' | 'versions' | 'access'> &
  Omit<AccountRouteOptions & KeyRouteOptions, 'scopes'> &
  RequestRoutesOptions &
  JobRoutesOptions &
  Omit<ChangeFeedOptions, 'report'> &
  Pick<RowAccessOptions, 'givenClaims'> & {
    later: Later
    codeServices: CodeServices
    /** Counts revocations of tokens in this process. */
    revocations?: RevocationEpoch
    operations: Operations
    /** All versions with their lifecycle status. */
    lifecycles: readonly VersionStatus[]
    limiter?: Limiter
    /** The id of this process in the table `nodes`. */
    nodeId?: string
    /** The maximum number of requests that wait for reports or stream their changes, per account and process. */
    maxWaiters?: number
    /** The maximum number of concurrent report downloads, per account and process. */
    maxDownloads?: number
    /** The maximum number of concurrent uploads, per account and process. */
    maxUploads?: number
  }

/** Serves every version of a definition except retired ones, under the version's prefixes. */
export async function serveVersions(app: FastifyInstance, definition: Definition, options: VersionOptions) {
  const { maxWaiters = defaultWaitersPerAccount, maxDownloads = defaultDownloadsPerAccount } = options
  const watch = watchTasks({ states: taskStates(options.db), later: options.later, perAccount: maxWaiters })
  const downloads = slotLimiter({ perAccount: maxDownloads, inTotal: maxDownloadsInAll })
  const feed = changeFeed(options)
  app.addHook('preClose', async () => {
    watch.close()
    feed.close()
  })
  const checkCallback = (url: string) => checkTarget(options.policy, url, options.lookup)
  const registrable = servedVersions(definition, options.lifecycles)
  const roles = rolesOf(definition, options)
  const { factsOf, eventAccess, reportAccess } = rowAccess(definition, options)
  const files = { store: options.results, uploads: uploadSlots(options), downloads }
  // All versions share one source of UUIDs, so that ids always increase in the order of creation.
  const shared = { ...options, zone: definition.zone, factsOf, newUuid: uuidSource(options), files, feed }
  const all = definition.collections.map(({ declaration }) => declaration)
  const { actions, hooks } = definition.code
  const repeating = repeatingWrites(options.db)
  const accounts = accountRules(definition.users, { ...options, db: repeating })
  const db = actions.length + hooks.length > 0 ? accounts.db : repeating
  const code = serviceCode(definition.code, { ...shared, ...options.codeServices, db, all, accounts })
  for (const { version, status } of options.lifecycles) {
    const served = status === 'retired' ? undefined : definition.versions[version]
    for (const prefix of served?.prefixes ?? []) {
      // Registers all routes of a prefix in one plugin, because a plugin for each group would slow down every start.
      const routes: FastifyPluginAsyncTypebox = async (at) => {
        if (served?.unknownParameters === 'refuse') rejectUnknownParameters(at)
        const { collections = [] } = served ?? {}
        await serveCollections(at, collections, { shared: { ...shared, db }, all, actions, accounts, code })
        await reports(at, { ...options, access: reportAccess, checkCallback, watch, downloads })
        const events = eventsIn(definition, version)
        await webhooks(at, { ...options, events, versions: registrable, access: eventAccess })
        await invitationRoute(at, { ...options, roles })
        await serveAdministration(at, { ...options, scopes: definition.scopes })
      }
      await app.register(routes, { prefix })
    }
  }
}

/** Returns the limits on concurrent uploads. */
const uploadSlots = ({ maxUploads = defaultUploadsPerAccount }: Pick<VersionOptions, 'maxUploads'>) =>
  slotLimiter({ perAccount: maxUploads, inTotal: maxUploadsInAll })

/** Adds the operator routes, and the route where callers read their own limits and usage. */
async function serveAdministration(
  at: Parameters<FastifyPluginAsyncTypebox>[0],
  options: VersionOptions & AccountRouteOptions & KeyRouteOptions,
): Promise<void> {
  const { db, lifecycles, limiter } = options
  const versions = lifecycles.map(({ version }) => version)
  await accountRoutes(at, options)
  await signingKeyRoutes(at, options)
  for (const routes of [clientRoutes, apiKeyRoutes, accessRoutes]) await routes(at, options)
  await accountUsage(at, options)
  await auditRoutes(at, { db })
  await operationRoutes(at, options)
  await nodeRoutes(at, options)
  await queueRoutes(at, options)
  await jobRoutes(at, options)
  await metricsHistory(at, options)
  await trafficRoute(at, options)
  await requestRoutes(at, options)
  await versionList(at, { ...options, calls: () => readVersionCalls(db, versions) })
  await usageRoute(at, { ...(limiter && { limiter }) })
}

/**
 * Returns the declared roles and a function that assigns one to a user; null if the definition does not extend users.
 */
function rolesOf({ users }: Definition, options: VersionOptions) {
  if (users === undefined) return null
  const { change } = userRows(options, users.collection.declaration)
  const give = (tx: Queryable, id: number, role: string, caller: Caller) => change({ tx, caller }, id, { role })
  return { names: users.roles, give }
}

/** Returns the first served version's list paths, by resource name. */
export function resourcePaths({ versions }: Definition, lifecycles: readonly VersionStatus[]): Record<string, string> {
  const first = lifecycles.find(({ version, status }) => status !== 'retired' && versions[version])
  const { prefixes: [prefix = ''] = [], collections = [] } = versions[first?.version ?? ''] ?? {}
  return Object.fromEntries(
    collections.map(({ declaration: { name, path } }) => [name, prefix + path] satisfies [string, string]),
  )
}

/** Returns the path prefixes of the versions that wrap lists in objects. */
export const enclosingPrefixes = ({ versions }: Definition): string[] =>
  Object.values(versions)
    .filter(({ lists }) => lists === 'object')
    .flatMap(({ prefixes }) => prefixes)

/** Returns each resource's list path, and whether the list can be read without a token. */
export const firstCallsOf = ({ collections }: Definition, { publicRead }: Pick<VersionOptions, 'publicRead'>) =>
  collections.map(({ declaration: { path, publicRead: isPublic } }) => ({ path, isPublic: isPublic && publicRead }))

/** Returns all report types: one per resource, the types in the definition, and two about the service itself. */
export function reportKinds({ collections, reports: declared, typedReports, zone }: Definition): ServedReport[] {
  const ofTables = collections.map(({ declaration }) => restricted(declaration, tableReport(reportOf(declaration))))
  const typed = typedReports.map((one) => restricted(one.of, typedReport(declaredReport(one, zone))))
  return [...ofTables, ...declared, ...typed, activity, deliveries]
}

/** If a resource has access rules, restricts its report to the rows that the requester may read. */
const restricted = ({ name, table, access }: Declaration, kind: ServedReport): ServedReport =>
  access ? { ...kind, restricted: { resource: name, table } } : kind
