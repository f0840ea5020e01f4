import { Command } from 'commander'
import type { Config } from '../config/config.ts'
import { listNodes, type NodeView } from '../nodes/list.ts'
import { databaseTime } from '../storage/clock.ts'
import { aligned, print, printJson, withStores } from './print.ts'

const about = `List the processes that use the database

A process without a heartbeat for 40 seconds is lost. Its row is removed after a day.`

/** Creates `plinth nodes`, the counterpart of GET /api/nodes. */
export function nodesCommand(configuration: () => Config): Command {
  return new Command('nodes')
    .description(about)
    .option('--json', 'print JSON')
    .action(({ json = false }: { json?: boolean }) =>
      withStores(configuration)(async ({ db }) => {
        const nowMs = await databaseTime(db)()
        const nodes = await listNodes(db, nowMs)
        if (json) return printJson(nodes)
        if (nodes.length === 0) return print('No process uses the database')
        for (const line of tableOf(nodes, nowMs)) print(line)
      }),
    )
}

function tableOf(nodes: readonly NodeView[], nowMs: number): string[] {
  const rows = nodes.map(({ hostname, pid, status, version, roles, clockAheadMs, heartbeatAt }) => [
    ...[hostname, String(pid), status, version, roles.join()],
    ...[`${clockAheadMs} ms`, `${Math.max(0, Math.round((nowMs - Date.parse(heartbeatAt)) / 1_000))} s ago`],
  ])
  return aligned([['host', 'process', 'status', 'release', 'roles', 'clock ahead', 'heartbeat'], ...rows])
}
