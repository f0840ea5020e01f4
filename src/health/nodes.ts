import { ageText, count } from '../backup/describe.ts'
import { differencesBetween } from '../nodes/compare.ts'
import { liveSince, storedNodes } from '../nodes/list.ts'
import type { NodesTable } from '../storage/tables/administration.ts'
import { type Check, type DatabaseContext, fail, pass, warn } from './check.ts'
import { clockFinding } from './database.ts'

/** Returns the nodes, newest first, in two groups: live nodes, and nodes without a heartbeat for 40 seconds. */
async function nodesIn({ db, databaseNow }: DatabaseContext) {
  const nowMs = await databaseNow()
  const { live = [], lost = [] } = Object.groupBy(await storedNodes(db), ({ heartbeatAt }) =>
    heartbeatAt >= liveSince(nowMs) ? 'live' : 'lost',
  )
  return { live, lost, nowMs }
}

const nameOf = ({ hostname, pid, version }: NodesTable) => `process ${pid} on ${hostname} (release ${version})`

/** The checks of the nodes, which are the processes that use the database. */
export const nodeChecks: readonly Check<DatabaseContext>[] = [
  {
    id: 'nodes.heartbeat',
    area: 'nodes',
    title: 'Heartbeats',
    rule: 'Warns about each node that ended without a clean stop, or has not responded for 40 seconds, in the last day',
    run: async (context) => {
      const { live, lost, nowMs } = await nodesIn(context)
      const detail = live.length === 0 ? 'No node is running' : `${count(live.length, 'node')} running`
      if (lost.length === 0) return pass(detail)
      const lastMs = Math.max(...lost.map(({ heartbeatAt }) => Date.parse(heartbeatAt)))
      const ago = ageText(nowMs - lastMs)
      return warn(
        `${detail}; ${count(lost.length, 'node')} lost: ${lost.map(nameOf).join(', ')}; the last heartbeat was ${ago} ago`,
        'Start it again if it should run; its row is removed a day after its last heartbeat',
      )
    },
  },
  {
    id: 'nodes.agreement',
    area: 'nodes',
    title: 'Agreement',
    rule: 'Warns if running nodes differ in release, definition or a compared setting; fails if they differ in a setting that must be equal',
    run: async (context) => {
      const { live } = await nodesIn(context)
      const [newest, ...others] = live
      if (newest === undefined || others.length === 0) return pass(`${count(live.length, 'node')} to compare`)
      const different = others.find((other) => other.version !== newest.version)
      const found = others.map((other) => differencesBetween(newest, other))
      const refused = found.flatMap((one) => one.refused)
      const here = `In ${nameOf(newest)}`
      if (refused.length > 0)
        return fail(`${here}: ${refused.join('; ')}`, 'Correct the settings, and restart the nodes')
      const allowed = found.flatMap((one) => one.allowed)
      const releases = different ? [`not the release of ${nameOf(different)}`] : []
      if (allowed.length + releases.length === 0) return pass(`All ${live.length} nodes agree`)
      return warn(`${here}: ${[...releases, ...allowed].join('; ')}`, 'Complete the upgrade: restart the other nodes')
    },
  },
  {
    id: 'nodes.clocks',
    area: 'nodes',
    title: 'Clocks of the nodes',
    rule: 'Warns if the clock of a running node differs by more than 5 seconds from that of the database, fails above 30',
    run: async (context) => {
      const { live } = await nodesIn(context)
      if (live.length === 0) return pass('No node is running')
      const worst = live.reduce((one, other) =>
        Math.abs(other.clockAheadMs) > Math.abs(one.clockAheadMs) ? other : one,
      )
      const differsMs = Math.abs(worst.clockAheadMs)
      const detail = `At most ${(differsMs / 1_000).toFixed(1)} s, in ${nameOf(worst)}`
      return clockFinding(differsMs, detail, 'Synchronize the clock of that machine (NTP)')
    },
  },
]
