import { sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import { limitExpression } from '../../storage/rows/page-query.ts'
import type { Admission, EndpointHealth, EndpointLimits, QueueState } from './endpoint-queue.ts'
import type { Held, Rank } from './shares.ts'

interface DueQueueRow extends EndpointHealth, Held {
  lane: string
  dueAt: string
  recent: string
  inFlight: number
  waiting: string | null
}

/** An endpoint queue that is due, with the ids of its first due deliveries. */
export type DueQueue = QueueState & Held & { lane: string; due: readonly string[] }

/** An endpoint queue with the deliveries to claim, and when to check it next. */
export type Chosen = DueQueue & Admission & { ids: readonly string[] }

interface DueQueueQuery {
  owners: readonly string[]
  rank: Rank
  /** Maximum number of queues to lock per owner. */
  each: number
  limits: EndpointLimits
  nowMs: number
}

/** Locks up to `each` due queues per owner. Returns them, longest overdue first, each with its first due deliveries. */
export async function dueQueues(tx: Queryable, { engine }: Database, query: DueQueueQuery): Promise<DueQueue[]> {
  const instant = iso(query.nowMs)
  const owners = engine.jsonRows(JSON.stringify(query.owners.map((owner) => [owner])))
  const { rows: found } = await sql<{ lanes: string | null }>`
    select (select ${engine.jsonArray(sql`w.lane`)} from (
      select lane from delivery_lanes where owner = value ->> 0 and rank = ${query.rank} and due_at <= ${instant}
      order by due_at limit ${limitExpression(query.each)}) as w) as lanes from ${owners}`.execute(tx)
  const names = found.flatMap(({ lanes }) => JSON.parse(lanes ?? '[]') as string[])
  const first = sql`(select ${engine.jsonArray(sql`w.id`)} from (
    select id from deliveries where lane = l.lane and status = 'pending' and lease_until is null
      and next_attempt_at <= ${instant} order by next_attempt_at, id limit ${limitExpression(query.limits.inFlight)}) as w)`
  const wanted = sql`select value ->> 0 from ${engine.jsonRows(JSON.stringify(names.map((name) => [name])))}`
  const { rows } = await sql<DueQueueRow>`
    select lane, owner, rank, failures, open_until, due_at, recent, ${first} as waiting,
      (select count(*) from deliveries where lane = l.lane and lease_until is not null) as in_flight
    from delivery_lanes as l where lane in (${wanted}) and due_at <= ${instant} and rank = ${query.rank}
    ${engine.lockFreeRows}`.execute(tx)
  return rows
    .sort((one, other) => (one.dueAt < other.dueAt ? -1 : 1))
    .map(({ recent, waiting, ...lane }) => {
      const due = JSON.parse(waiting ?? '[]') as string[]
      return { ...lane, recent: JSON.parse(recent) as number[], due, waiting: due.length }
    })
}

/** Returns the number of calls that each owner could start. */
export function wantedBy(lanes: readonly DueQueue[], countOf: (lane: DueQueue) => number): Map<string, number> {
  const wanted = new Map<string, number>()
  for (const lane of lanes) wanted.set(lane.owner, (wanted.get(lane.owner) ?? 0) + countOf(lane))
  return wanted
}

/**
 * Distributes each owner's slots among its queues, longest overdue first. Leaves out queues that could start calls but
 * get no slot, so that they stay due.
 */
export function choose(
  lanes: readonly DueQueue[],
  granted: ReadonlyMap<string, number>,
  admitted: (lane: DueQueue) => Admission,
): Chosen[] {
  const rest = new Map(granted)
  return lanes.flatMap((lane) => {
    const allowed = admitted(lane)
    const grant = Math.min(allowed.count, rest.get(lane.owner) ?? 0)
    if (grant === 0 && allowed.count > 0) return []
    rest.set(lane.owner, (rest.get(lane.owner) ?? 0) - grant)
    const admission = grant === allowed.count ? allowed : admitted({ ...lane, waiting: grant })
    return [{ ...lane, ...admission, ids: lane.due.slice(0, grant) }]
  })
}
