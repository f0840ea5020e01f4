import type { FastifyInstance } from 'fastify'
import { accountGuard } from './auth/account-guard.ts'
import { apiKeyRoutes } from './auth/api-key-routes.ts'
import { auditRoutes } from './auth/audit-routes.ts'
import { type AdminOptions, clientRoutes } from './auth/client-routes.ts'
import { type InvitationRouteOptions, invitationRoute } from './auth/invitation-route.ts'
import { readVersionCalls } from './db/version-calls.ts'
import type { Definition } from './definition.ts'
import { checkTarget } from './http/guard.ts'
import type { Limiter } from './http/limits/limiter.ts'
import { usageRoute } from './http/limits/usage.ts'
import { refuseUnknownParameters } from './http/unknown-parameters.ts'
import type { VersionStatus } from './http/version-life.ts'
import { versionList } from './http/version-list.ts'
import type { Collection, CollectionOptions } from './resources/declaration.ts'
import { activity } from './resources/reports/kinds/activity.ts'
import { deliveries } from './resources/reports/kinds/deliveries.ts'
import type { ReportKind } from './resources/reports/kinds.ts'
import { defaultDownloadsPerAccount, places } from './resources/reports/places.ts'
import type { ReportsOptions } from './resources/reports/route-parts.ts'
import { reports } from './resources/reports/routes.ts'
import { tableReport } from './resources/reports/table-report.ts'
import { taskStates } from './resources/reports/tasks.ts'
import { defaultWaitersPerAccount, type Later, watchTasks } from './resources/reports/watch.ts'
import { reportOf } from './resources/show.ts'
import { users } from './resources/users.ts'
import { webhooks } from './resources/webhooks/routes.ts'
import type { WebhooksOptions } from './resources/webhooks/webhooks-options.ts'
import { maxDownloadsInAll } from './results/store.ts'

/** What every version works with; which events there are is told by the definition. */
export type VersionOptions = CollectionOptions &
  ReportsOptions &
  InvitationRouteOptions &
  Omit<WebhooksOptions, 'events'> &
  Omit<AdminOptions, 'scopes'> & {
    later: Later
    /** Every version there is or was, and what becomes of it. */
    lives: readonly VersionStatus[]
    limiter?: Limiter
    /** How many event streams and waiting requests, and how many downloads, an account may have open in this process. */
    maxWaiters?: number
    maxDownloads?: number
  }

/** Serves every version of a definition under its prefixes, retired ones aside. */
export async function serveVersions(app: FastifyInstance, definition: Definition, options: VersionOptions) {
  const { maxWaiters = defaultWaitersPerAccount, maxDownloads = defaultDownloadsPerAccount } = options
  const watch = watchTasks({ states: taskStates(options.db), later: options.later, perAccount: maxWaiters })
  const downloads = places({ perAccount: maxDownloads, inAll: maxDownloadsInAll })
  app.addHook('preClose', async () => watch.close())
  const judgeCallback = (url: string) => checkTarget(options.policy, url, options.lookup)
  const calls = () => readVersionCalls(options.db)
  const ofAccounts = accountGuard(options.db)
  const guardOf = (one: Collection) => (one === users ? ofAccounts : undefined)
  for (const { version, status } of options.lives) {
    const served = status === 'retired' ? undefined : definition.versions[version]
    for (const prefix of served?.prefixes ?? []) {
      await app.register(async (at) => {
        if (served?.unknownParameters === 'refuse') refuseUnknownParameters(at)
        for (const one of served?.collections ?? []) {
          await at.register(one.plugin, { ...options, guard: guardOf(one), prefix })
        }
        await at.register(reports, { ...options, judgeCallback, watch, downloads, prefix })
        await at.register(webhooks, { ...options, events: definition.events, prefix })
        await at.register(invitationRoute, { ...options, prefix })
        for (const routes of [clientRoutes, apiKeyRoutes]) {
          await at.register(routes, { ...options, scopes: definition.scopes, prefix })
        }
        await at.register(auditRoutes, { db: options.db, prefix })
        await at.register(versionList, { lives: options.lives, calls, prefix })
        await at.register(usageRoute, { ...(options.limiter && { limiter: options.limiter }), prefix })
      })
    }
  }
}

/** Where the lists of the first version that is served are, by their names. */
export function resourcePaths({ versions }: Definition, lives: readonly VersionStatus[]): Record<string, string> {
  const first = lives.find(({ version, status }) => status !== 'retired' && versions[version])
  const { prefixes: [prefix = ''] = [], collections = [] } = versions[first?.version ?? ''] ?? {}
  return Object.fromEntries(
    collections.map(({ declaration: { name, path } }) => [name, prefix + path] satisfies [string, string]),
  )
}

/** The prefixes of the versions whose lists are objects. */
export const enclosingPrefixes = ({ versions }: Definition): string[] =>
  Object.values(versions)
    .filter(({ lists }) => lists === 'object')
    .flatMap(({ prefixes }) => prefixes)

/** The list of each resource, and whether everybody may read it. */
export const firstCallsOf = ({ collections }: Definition, { publicRead }: Pick<VersionOptions, 'publicRead'>) =>
  collections.map(({ declaration: { path, publicRead: isPublic } }) => ({ path, isPublic: isPublic && publicRead }))

/** The report types: one for each resource, those declared, and two about the service itself. */
export function reportKinds({ collections, reports: declared }: Definition): ReportKind[] {
  const ofTables = collections.map(({ declaration }) => tableReport(reportOf(declaration)))
  return [...ofTables, ...declared, activity, deliveries]
}
