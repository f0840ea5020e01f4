import { Command } from 'commander'
import type { Config } from '../config/config.ts'
import type { Definition } from '../definition/service.ts'
import { versionLives } from '../version-lifecycle.ts'
import { readVersionCalls } from '../versioning/call-counts.ts'
import { versionViews } from '../versioning/routes.ts'
import { print, printJson, withStores } from './print.ts'

type View = ReturnType<typeof versionViews>[number]

const about = `List the versions of the interface, and who still calls those that are deprecated

PLINTH_VERSIONS says what becomes of each version. Calls are counted for deprecated versions only, and written down every
few seconds by the services that answer them.`

/** `plinth versions`: the counterpart of GET /api/versions. */
export function versionsCommand(configuration: () => Config, definition: () => Promise<Definition>): Command {
  return new Command('versions')
    .description(about)
    .option('--json', 'as JSON')
    .action(async ({ json = false }: { json?: boolean }) => {
      const lives = versionLives(await definition(), configuration().versions.plans)
      await withStores(configuration)(async ({ db }) => {
        const views = versionViews(lives, await readVersionCalls(db))
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
  if (clients.length === 0) return ['', `Nobody has called ${version} since it is deprecated`]
  const rows = clients.map(({ clientId, calls, lastCallAt }) => [clientId ?? '(no client)', String(calls), lastCallAt])
  return [
    '',
    `Who has called ${version} since it is deprecated, the latest first:`,
    ...aligned([['client', 'calls', 'last call'], ...rows]),
  ]
}

/** Rows as lines with aligned columns. */
function aligned(rows: readonly string[][]): string[] {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}
