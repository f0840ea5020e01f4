import { Command } from 'commander'
import type { Config } from '../config/config.ts'
import type { Definition } from '../definition/service.ts'
import { versionLifecycles } from '../version-lifecycle.ts'
import { readVersionCalls } from '../versioning/call-counts.ts'
import { versionViews } from '../versioning/routes.ts'
import { aligned, print, printJson, withStores } from './print.ts'

type View = ReturnType<typeof versionViews>[number]

const about = `List the API versions, and the clients that still call deprecated ones

PLINTH_VERSIONS sets the lifecycle of each version. Only calls of deprecated versions are counted; every service saves its
counts every few seconds.`

/** Creates `plinth versions`, the counterpart of GET /api/versions. */
export function versionsCommand(configuration: () => Config, definition: () => Promise<Definition>): Command {
  return new Command('versions')
    .description(about)
    .option('--json', 'print JSON')
    .action(async ({ json = false }: { json?: boolean }) => {
      const lifecycles = versionLifecycles(await definition(), configuration().versions.plans)
      await withStores(configuration)(async ({ db }) => {
        const versions = lifecycles.map(({ version }) => version)
        const views = versionViews(lifecycles, await readVersionCalls(db, versions))
        if (json) return printJson(views)
        for (const line of [...tableOf(views), ...views.flatMap(callersOf)]) print(line)
      })
    })
}

const dayOf = (instant: string | undefined) => instant?.slice(0, 10) ?? '-'

function tableOf(views: readonly View[]): string[] {
  const rows = views.map(({ version, status, deprecatedAt, sunsetAt, successor = '-' }) => [
    ...[version, status, dayOf(deprecatedAt), dayOf(sunsetAt), successor],
  ])
  return aligned([['version', 'status', 'deprecated', 'sunset', 'successor'], ...rows])
}

function callersOf({ version, status, clients }: View): string[] {
  if (status !== 'deprecated') return []
  if (clients.length === 0) return ['', `Nobody has called ${version} since its deprecation`]
  const rows = clients.map(({ clientId, calls, lastCallAt }) => [clientId ?? '(no client)', String(calls), lastCallAt])
  return [
    '',
    `Clients that have called ${version} since its deprecation, most recent first:`,
    ...aligned([['client', 'calls', 'last call'], ...rows]),
  ]
}
