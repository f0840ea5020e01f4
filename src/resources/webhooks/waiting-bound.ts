import { sql } from 'kysely'
import { iso } from '../../db/iso.ts'
import type { Database, Queryable } from '../../db/open.ts'
import type { DeliveryDropsTable, Owned } from '../../db/tables.ts'
import { type Announcing, announceWebhook } from './announce-webhook.ts'

export interface BoundOptions extends Announcing {
  db: Database
  now: () => number
  /** How many deliveries of one owner may wait. */
  maxWaiting: number
  /** Called when an owner is notified, with how many were dropped since the last time. */
  onDropped?: (owner: Owned, dropped: number) => void
}

/** Called after deliveries were added: drops the oldest waiting ones of owners that have too many. */
export type WaitingBound = (added: readonly Owned[]) => Promise<void>

const batchSize = 1_000
/** More than were added are dropped at a time, so that an owner who was far beyond the bound comes back to it. */
const dropsPerAddition = 4
const notifyEachMs = 3_600_000
const rememberedOwners = 10_000

/**
 * Keeps the number of waiting deliveries of each owner within a bound, give or take a hundredth. They are counted in an index, and
 * not after each addition: at the earliest once half of the room that was found the last time is used up, as other nodes
 * may use the other half.
 */
export function waitingBound(options: BoundOptions): WaitingBound {
  const { maxWaiting } = options
  const slack = Math.floor(maxWaiting / 100)
  const rooms = new Map<string, number>()
  return async (added) => {
    for (const [key, [owner, ...others]] of Map.groupBy(added, keyOf)) {
      const count = 1 + others.length
      const left = (rooms.get(key) ?? 0) - count
      rooms.delete(key)
      // The owner that was counted longest ago is forgotten first.
      if (rooms.size >= rememberedOwners) rooms.delete(rooms.keys().next().value as string)
      rooms.set(key, left)
      if (left >= 0 || owner === undefined) continue
      const excess = (await countWaiting(options, owner)) - maxWaiting
      if (excess > 0) await dropOldest(options, owner, Math.min(excess, count * dropsPerAddition + batchSize))
      rooms.set(key, excess > 0 ? slack : Math.max(slack, Math.floor(-excess / 2)))
    }
  }
}

const keyOf = ({ ownerClient, ownerSubject }: Owned) => JSON.stringify([ownerClient, ownerSubject])

/** Counts no further than can be dropped at a time. */
async function countWaiting({ db, maxWaiting }: BoundOptions, { ownerClient, ownerSubject }: Owned): Promise<number> {
  const most = maxWaiting + (dropsPerAddition + 1) * batchSize
  const { rows } = await sql<{ waiting: number }>`
    select count(*) as waiting from (
      select 1 from deliveries where owner_client = ${ownerClient} and owner_subject = ${ownerSubject}
        and status = 'pending' limit ${most}) as waiting`.execute(db.read)
  return rows[0]?.waiting ?? 0
}

/** Ends the deliveries that have waited longest as failed, but none that is under way, and notifies the owner. */
async function dropOldest(options: BoundOptions, owner: Owned, excess: number): Promise<void> {
  const dropped = new Map<string | null, number>()
  for (let left = excess; left > 0; ) {
    const ended = await options.db.write((tx) => dropBatch(tx, options, owner, Math.min(left, batchSize)))
    if (ended.length === 0) break
    for (const { webhookId } of ended) dropped.set(webhookId, (dropped.get(webhookId) ?? 0) + 1)
    left -= ended.length
  }
  const ids = [...dropped].sort(([, one], [, other]) => other - one).flatMap(([id]) => id ?? [])
  await options.db.write((tx) => notify(tx, options, owner, ids.slice(0, 1)))
}

const reasonOf = (maxWaiting: number) => `Dropped: more than ${maxWaiting} deliveries of yours were waiting`

async function dropBatch(tx: Queryable, options: BoundOptions, { ownerClient, ownerSubject }: Owned, most: number) {
  const { db, now, maxWaiting } = options
  const instant = iso(now())
  const { rows } = await sql<{ webhookId: string | null }>`
    update deliveries set status = 'failed', next_attempt_at = null, completed_at = ${instant},
      reason = ${reasonOf(maxWaiting)}
    where id in (
      select id from deliveries where owner_client = ${ownerClient} and owner_subject = ${ownerSubject}
        and status = 'pending' and lease_until is null order by id limit ${most} ${db.engine.lockFreeRows})
    returning webhook_id`.execute(tx)
  if (rows.length === 0) return rows
  const row = { ownerClient, ownerSubject, total: rows.length, unreported: rows.length, since: instant }
  await tx
    .insertInto('deliveryDrops')
    .values({ ...row, reportedAt: null })
    .onConflict((conflict) =>
      conflict.columns(['ownerClient', 'ownerSubject']).doUpdateSet((old) => ({
        total: sql<number>`${old.ref('deliveryDrops.total')} + ${rows.length}`,
        unreported: sql<number>`${old.ref('deliveryDrops.unreported')} + ${rows.length}`,
        since: sql<string>`case when delivery_drops.unreported = 0 then ${instant} else delivery_drops.since end`,
      })),
    )
    .execute()
  return rows
}

/** Tells the owner's other webhooks how many were dropped, at most once an hour. */
async function notify(tx: Queryable, options: BoundOptions, owner: Owned, webhookIds: string[]): Promise<void> {
  const { now, maxWaiting, onDropped } = options
  const instant = iso(now())
  const drops = await claimReport(tx, owner, instant, iso(now() - notifyEachMs))
  if (drops === undefined) return
  onDropped?.(owner, drops.unreported)
  const named = tx.selectFrom('webhooks').selectAll().where('id', 'in', webhookIds)
  const webhook = webhookIds.length === 0 ? undefined : await named.executeTakeFirst()
  if (webhook === undefined) return
  const reason = `${drops.unreported} deliveries were dropped: more than ${maxWaiting} of yours were waiting`
  await announceWebhook(tx, options, webhook, { kind: 'webhook.failing', since: drops.since, reason }, instant)
}

/** What is to be reported now; undefined when there is nothing, or the last report is newer than `before`. */
async function claimReport(tx: Queryable, owner: Owned, instant: string, before: string) {
  const { ownerClient, ownerSubject } = owner
  const due = tx
    .selectFrom('deliveryDrops')
    .selectAll()
    .where('ownerClient', '=', ownerClient)
    .where('ownerSubject', '=', ownerSubject)
    .where('unreported', '>', 0)
    .where((row) => row.or([row('reportedAt', 'is', null), row('reportedAt', '<=', before)]))
  const drops: DeliveryDropsTable | undefined = await due.executeTakeFirst()
  if (drops === undefined) return undefined
  const claimed = await tx
    .updateTable('deliveryDrops')
    .set({ unreported: 0, reportedAt: instant })
    .where('ownerClient', '=', ownerClient)
    .where('ownerSubject', '=', ownerSubject)
    .where('unreported', '=', drops.unreported)
    .executeTakeFirst()
  return claimed.numUpdatedRows === 0n ? undefined : drops
}
