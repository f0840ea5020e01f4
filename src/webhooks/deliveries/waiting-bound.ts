import { type RawBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import { ScanRefused } from '../../storage/scans/scan.ts'
import type { DeliveryDropsTable } from '../../storage/tables/tables.ts'
import { type EventRecording, recordHealthEvent } from '../dispatch/health-events.ts'

export interface BoundOptions extends EventRecording {
  db: Database
  now: () => number
  /** Maximum number of waiting deliveries per owner. */
  maxWaiting: number
  /** Called at most once an hour per owner with the number of deliveries dropped since the previous call. */
  onDropped?: (owner: string, dropped: number) => void
}

/** Drops the oldest waiting deliveries of owners above the limit; `owners` lists the owner of each added delivery. */
export type WaitingBound = (owners: readonly string[]) => Promise<void>

const batchSize = 500
/**
 * Number of deliveries that may be dropped per added delivery, in addition to one batch. Must exceed 1, so that an
 * owner far above the limit gets back below it.
 */
const dropsPerAddition = 4
const maxDropped = 5_000
const notifyEachMs = 3_600_000
const maxOwners = 10_000

/**
 * Limits each owner's waiting deliveries, with an error of at most one percent. Counting scans an index, so deliveries
 * are not counted after every addition. The next count is due when this process has used up half of the remaining
 * capacity, because other nodes may be using the other half.
 */
export function waitingBound(options: BoundOptions): WaitingBound {
  const { maxWaiting } = options
  const slack = Math.floor(maxWaiting / 100)
  const rooms = new Map<string, number>()
  return async (owners) => {
    for (const [owner, { length }] of Map.groupBy(owners, (one) => one)) {
      const left = (rooms.get(owner) ?? 0) - length
      rooms.delete(owner)
      // Evict the owner that was counted longest ago.
      if (rooms.size >= maxOwners) rooms.delete(rooms.keys().next().value as string)
      rooms.set(owner, left)
      if (left >= 0) continue
      const excess = (await countWaiting(options, owner)) - maxWaiting
      if (excess > 0) await dropOldest(options, owner, Math.min(excess, length * dropsPerAddition + batchSize))
      rooms.set(owner, excess > 0 ? slack : Math.max(slack, Math.floor(-excess / 2)))
    }
  }
}

/** Selects an owner's waiting deliveries; deliveries in the same endpoint queue are adjacent in the index. */
const waitingOf = ({ engine }: Database, owner: string) => sql`delivery_lanes as l
  join deliveries as d on d.lane = l.lane and d.status = 'pending' and d.lease_until is null
  where l.owner = ${owner} and l.due_at is not null and ${engine.interruptible('d')}`

/**
 * Runs a query over many rows outside the thread that serves requests. Returns no rows if the scan is refused; the
 * owner's next addition counts again.
 */
async function scanRows<Row>(db: Database, query: RawBuilder<Row>, owner: string): Promise<Row[]> {
  const compiled = query.compile(db.read.withoutPlugins())
  return db.scan<Row>({ compile: () => compiled }, { account: `webhooks of ${owner}` }).catch((error) => {
    if (error instanceof ScanRefused) return []
    throw error
  })
}

/** Counts an owner's waiting deliveries, up to the limit plus the maximum number that can be dropped at once. */
async function countWaiting({ db, maxWaiting }: BoundOptions, owner: string): Promise<number> {
  const counting = sql<{ waiting: number }>`
    select count(*) as waiting from (
      select 1 from ${waitingOf(db, owner)} limit ${maxWaiting + maxDropped}) as waiting`
  const [counted] = await scanRows(db, counting, owner)
  return counted?.waiting ?? 0
}

/** Marks an owner's oldest waiting deliveries as failed, except those in flight, and notifies the owner. */
async function dropOldest(options: BoundOptions, owner: string, excess: number): Promise<void> {
  const { db } = options
  const oldest = sql<{ id: string }>`select d.id from ${waitingOf(db, owner)} order by d.id limit ${excess}`
  const rows = await scanRows(db, oldest, owner)
  const dropped = new Map<string | null, number>()
  while (rows.length > 0) {
    const ids = rows.splice(0, batchSize).map(({ id }) => [id])
    for (const { webhookId } of await db.write((tx) => drop(tx, options, owner, ids))) {
      dropped.set(webhookId, (dropped.get(webhookId) ?? 0) + 1)
    }
  }
  const webhooks = [...dropped].sort(([, one], [, other]) => other - one).flatMap(([id]) => id ?? [])
  await db.write((tx) => notify(tx, options, owner, webhooks.slice(0, 1)))
}

const reasonOf = (maxWaiting: number) => `Dropped: more than ${maxWaiting} of your deliveries were waiting`

async function drop(tx: Queryable, { db, now, maxWaiting }: BoundOptions, owner: string, ids: readonly string[][]) {
  const instant = iso(now())
  const wanted = sql`select value ->> 0 from ${db.engine.jsonRows(JSON.stringify(ids))}`
  // `not (status <> …)` keeps the planner from using the index on the status, so that rows are looked up by id.
  const { rows } = await sql<{ webhookId: string | null }>`
    update deliveries set status = 'failed', next_attempt_at = null, completed_at = ${instant},
      reason = ${reasonOf(maxWaiting)}
    where id in (
      select id from deliveries where id in (${wanted}) and not (status <> 'pending') and lease_until is null
      ${db.engine.lockFreeRows})
    returning webhook_id`.execute(tx)
  const count = rows.length
  await sql`
    insert into delivery_drops (owner, total, unreported, since) values (${owner}, ${count}, ${count}, ${instant})
    on conflict (owner) do update set total = delivery_drops.total + excluded.total,
      unreported = delivery_drops.unreported + excluded.unreported,
      since = case when delivery_drops.unreported = 0 then excluded.since else delivery_drops.since end`.execute(tx)
  return rows
}

/** Reports the number of dropped deliveries to the log and to the owner's other webhooks, at most once an hour. */
async function notify(tx: Queryable, options: BoundOptions, owner: string, webhookIds: string[]): Promise<void> {
  const { db, now, maxWaiting, onDropped } = options
  const instant = iso(now())
  const { rows } = await sql<Pick<DeliveryDropsTable, 'unreported' | 'since'>>`
    select unreported, since from delivery_drops where owner = ${owner} and unreported > 0
      and (reported_at is null or reported_at <= ${iso(now() - notifyEachMs)}) ${db.engine.lockRows}`.execute(tx)
  const [drops] = rows
  if (drops === undefined) return
  await tx.updateTable('deliveryDrops').set({ unreported: 0, reportedAt: instant }).where('owner', '=', owner).execute()
  onDropped?.(owner, drops.unreported)
  const named = tx.selectFrom('webhooks').selectAll().where('id', 'in', webhookIds)
  const webhook = webhookIds.length === 0 ? undefined : await named.executeTakeFirst()
  if (webhook === undefined) return
  const reason = `More than ${maxWaiting} of your deliveries were waiting: the oldest were dropped (${drops.unreported})`
  await recordHealthEvent(tx, options, webhook, { kind: 'webhook.failing', since: drops.since, reason }, instant)
}
