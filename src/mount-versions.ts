import type { FastifyInstance } from 'fastify'
import { auditRecorder } from './audit/chain.ts'
import { auditRoutes } from './audit/routes.ts'
import { userRows } from './catalog/user-rows.ts'
import { users } from './catalog/users.ts'
import type { Definition } from './definition/service.ts'
import { eventsIn, servedVersions } from './event-shapes.ts'
import { defaultDownloadsPerAccount, defaultUploadsPerAccount, maxUploadsInAll, slotLimiter } from './files/slots.ts'
import { maxDownloadsInAll } from './files/store.ts'
import type { Caller } from './http/policies/authenticate.ts'
import { checkTarget } from './http/ssrf-guard.ts'
import { rejectUnknownParameters } from './http/strict-handling.ts'
import { metricsHistory } from './metrics/history/route.ts'
import { nodeRoutes } from './nodes/routes.ts'
import { apiKeyRoutes } from './oauth/api-keys/routes.ts'
import { clientRoutes } from './oauth/clients/routes.ts'
import { type KeyRouteOptions, signingKeyRoutes } from './oauth/keys/routes.ts'
import { accessRoutes } from './oauth/users/access-routes.ts'
import { accountGuard, extendedAccountGuard } from './oauth/users/account-guard.ts'
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
import type { Collection, CollectionOptions, Declaration } from './resources/declaration.ts'
import { declaredReport } from './resources/reports/report.ts'
import { reportOf } from './resources/representation.ts'
import { rowAccess } from './row-access.ts'
import type { Queryable } from './storage/database.ts'
import { uuidSource } from './storage/ids.ts'
import { type RequestRoutesOptions, requestRoutes } from './traffic/request-routes.ts'
import { trafficRoute } from './traffic/routes.ts'
import { readVersionCalls } from './versioning/call-counts.ts'
import { versionList } from './versioning/routes.ts'
import type { VersionStatus } from './versioning/version-of-path.ts'
import { webhooks } from './webhooks/routes.ts'
import type { WebhooksOptions } from './webhooks/webhooks-options.ts'

/** The options shared by all API versions; event types and access rules come from the definition. */
export type VersionOptions = Omit<CollectionOptions, 'factsOf' | 'newUuid'> &
  Omit<ReportsOptions, 'access'> &
  Omit<InvitationRouteOptions, 'roles'> &
  Omit<WebhooksOptions, 'events' | 'versions' | 'access'> &
  Omit<AccountRouteOptions & KeyRouteOptions, 'scopes'> &
  RequestRoutesOptions & {
    later: Later
    operations: Operations
    /** All versions with their lifecycle status. */
    lives: readonly VersionStatus[]
    limiter?: Limiter
    /** The id of this process among the nodes. */
    nodeId?: string
    /** The maximum number of open event streams and waiting requests together, per account and process. */
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
  app.addHook('preClose', async () => watch.close())
  const checkCallback = (url: string) => checkTarget(options.policy, url, options.lookup)
  const registrable = servedVersions(definition, options.lives)
  const { ofAccounts, served: usersCollection, roles } = usersOf(definition, options)
  const { factsOf, eventAccess, reportAccess } = rowAccess(definition, options)
  // With one source of UUIDs, so that the ids of all versions increase.
  const files = { store: options.results, uploads: uploadSlots(options), downloads }
  const shared = { ...options, zone: definition.zone, factsOf, newUuid: uuidSource(options), files }
  const all = definition.collections.map(({ declaration }) => declaration)
  const guardOf = ({ declaration }: Collection) =>
    (declaration.view?.collection ?? declaration) === usersCollection?.declaration ? ofAccounts : undefined
  for (const { version, status } of options.lives) {
    const served = status === 'retired' ? undefined : definition.versions[version]
    for (const prefix of served?.prefixes ?? []) {
      await app.register(async (at) => {
        if (served?.unknownParameters === 'refuse') rejectUnknownParameters(at)
        const related = { all, served: (served?.collections ?? []).map(({ declaration }) => declaration) }
        for (const one of served?.collections ?? []) {
          await at.register(one.plugin, { ...shared, guard: guardOf(one), related, prefix })
        }
        await at.register(reports, { ...options, access: reportAccess, checkCallback, watch, downloads, prefix })
        await at.register(webhooks, {
          ...options,
          events: eventsIn(definition, version),
          versions: registrable,
          access: eventAccess,
          prefix,
        })
        await at.register(invitationRoute, { ...options, roles, prefix })
        await serveAdministration(at, { ...options, scopes: definition.scopes, prefix })
      })
    }
  }
}

/** Returns the limits on concurrent uploads. */
const uploadSlots = ({ maxUploads = defaultUploadsPerAccount }: Pick<VersionOptions, 'maxUploads'>) =>
  slotLimiter({ perAccount: maxUploads, inTotal: maxUploadsInAll })

/** Adds the routes for operators, and the route of a caller's own limits, below a prefix. */
async function serveAdministration(
  at: FastifyInstance,
  options: VersionOptions & AccountRouteOptions & KeyRouteOptions & { prefix: string },
): Promise<void> {
  const { db, lives, limiter, prefix } = options
  const versions = lives.map(({ version }) => version)
  await at.register(accountRoutes, options)
  await at.register(signingKeyRoutes, options)
  for (const routes of [clientRoutes, apiKeyRoutes, accessRoutes]) await at.register(routes, options)
  await at.register(accountUsage, options)
  await at.register(auditRoutes, { db, prefix })
  await at.register(operationRoutes, options)
  await at.register(nodeRoutes, options)
  await at.register(queueRoutes, options)
  await at.register(metricsHistory, options)
  await at.register(trafficRoute, options)
  await at.register(requestRoutes, options)
  await at.register(versionList, { ...options, calls: () => readVersionCalls(db, versions) })
  await at.register(usageRoute, { ...(limiter && { limiter }), prefix })
}

/**
 * Returns the served users, the rules for changing their accounts, and the declared roles; the roles are null if the
 * definition adds nothing to users.
 */
function usersOf({ users: extended }: Definition, options: VersionOptions) {
  const { db, sealer, now } = options
  if (extended === undefined) return { ofAccounts: accountGuard(db), served: users, roles: null }
  const { change } = userRows(options, extended.collection.declaration)
  return {
    ofAccounts: extendedAccountGuard(db, auditRecorder(sealer, now)),
    served: extended.collection,
    roles: {
      names: extended.roles,
      give: (tx: Queryable, id: number, role: string, caller: Caller) => change({ tx, caller }, id, { role }),
    },
  }
}

/** Returns the first served version's list paths, by resource name. */
export function resourcePaths({ versions }: Definition, lives: readonly VersionStatus[]): Record<string, string> {
  const first = lives.find(({ version, status }) => status !== 'retired' && versions[version])
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

/** Returns all report types: one per resource, those in the definition, and two about the service itself. */
export function reportKinds({ collections, reports: declared, typedReports, zone }: Definition): ServedReport[] {
  const ofTables = collections.map(({ declaration }) => restricted(declaration, tableReport(reportOf(declaration))))
  const typed = typedReports.map((one) => restricted(one.of, typedReport(declaredReport(one, zone))))
  return [...ofTables, ...declared, ...typed, activity, deliveries]
}

/** If a resource has access rules, restricts its report to the rows that the requester may read. */
const restricted = ({ name, table, access }: Declaration, kind: ServedReport): ServedReport =>
  access ? { ...kind, restricted: { resource: name, table } } : kind
