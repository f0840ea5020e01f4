import { keysetPage, type PageQuery } from '../http/pagination.ts'
import type { Database } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import type { NodesTable } from '../storage/tables/administration.ts'
import type { ComparedSettings } from './node.ts'

/** A node whose last heartbeat is older than this is lost. */
const lostAfterMs = 40_000
/** The maximum number of nodes that `storedNodes` returns. */
const maxListed = 1_000

/** A node as shown by `GET /api/nodes` and `plinth nodes`. */
export interface NodeView {
  id: string
  /** Whether this is the process that responds; always false in `plinth nodes`. */
  self: boolean
  status: 'live' | 'lost'
  hostname: string
  pid: number
  version: string
  roles: string[]
  baseUrl: string
  /** The newest migration in the node's release. */
  schemaVersion: string
  /** A digest of the definition's resources and fields. */
  definition: string
  clockAheadMs: number
  startedAt: string
  heartbeatAt: string
}

/** Returns the earliest possible time of a live node's last heartbeat. */
export const liveSince = (nowMs: number): string => iso(nowMs - lostAfterMs)

/** Returns the rows of the nodes, newest first, at most 1,000: live nodes, and nodes lost in the last day. */
export const storedNodes = ({ read }: Pick<Database, 'read'>): Promise<NodesTable[]> =>
  read.selectFrom('nodes').selectAll().orderBy('startedAt', 'desc').orderBy('id', 'desc').limit(maxListed).execute()

/** Returns the nodes for `plinth nodes`: newest first, at most 1,000. */
export const listNodes = async (db: Pick<Database, 'read'>, nowMs: number): Promise<NodeView[]> =>
  (await storedNodes(db)).map((row) => viewOf(row, nowMs))

/** Returns one page of the nodes, newest first. */
export async function nodePage({ read }: Pick<Database, 'read'>, query: PageQuery, nowMs: number, selfId?: string) {
  const { rows, cursors } = await keysetPage<NodesTable>(query, 2, {
    of: 'nodes',
    keyOf: ({ startedAt, id }) => [startedAt, id],
    rowsAfter: (after, backwards, count) => {
      const [order, beyond] = backwards ? (['asc', '>'] as const) : (['desc', '<'] as const)
      const [startedAt = '', id = ''] = (after ?? []).map(String)
      return read
        .selectFrom('nodes')
        .selectAll()
        .$if(after !== null, (page) =>
          page.where(({ eb, refTuple, tuple }) => eb(refTuple('startedAt', 'id'), beyond, tuple(startedAt, id))),
        )
        .orderBy('startedAt', order)
        .orderBy('id', order)
        .limit(count)
        .execute()
    },
  })
  return { nodes: rows.map((row) => viewOf(row, nowMs, selfId)), cursors }
}

function viewOf(row: NodesTable, nowMs: number, selfId?: string): NodeView {
  const { roles, settings, resources: _, ...others } = row
  return {
    ...others,
    self: row.id === selfId,
    status: row.heartbeatAt >= liveSince(nowMs) ? 'live' : 'lost',
    roles: roles.split(','),
    baseUrl: (JSON.parse(settings) as ComparedSettings).PLINTH_BASE_URL ?? '',
  }
}
