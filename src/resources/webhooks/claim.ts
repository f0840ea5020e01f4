import { sql } from 'kysely'
import { atMost } from '../../db/at-most.ts'
import { iso } from '../../db/iso.ts'
import type { Database, Queryable } from '../../db/open.ts'
import type { Owned } from '../../db/tables.ts'
import { type Called, registrationsOf } from './called.ts'
import { type Admission, admit, firstWaiting, type LaneLimits } from './lanes.ts'

/** A claimed delivery with all that its call needs. */
export interface Due {
  id: string
  /** The fencing token of this claim. */
  fence: number
  lane: string
  eventId: string
  webhookId: string | null
  /** Where its registration is now; what the row says, where there is none. */
  url: string
  body: string
  attempts: number
  /** Grows with each redelivery. */
  round: number
  /** The tries of earlier rounds. */
  triesBefore: number
  /** 1 for a test: tried once, whether its registration is active or not. */
  isTest: number
  /** How often its registration had been stopped when it was made due. */
  stops: number
  type: string
  /** Of the registration; of the request, where the address came with one. */
  ownerClient: string
  ownerSubject: string
  /** The registration as it was when claimed; null when it or its owner is gone, or there was none. */
  webhook: Called | null
}

interface Looked {
  lane: string
  failures: number
  openUntil: string | null
  recent: string
  inFlight: number
  waiting: string | null
  owner: string | null
}

export interface ClaimOptions {
  db: Database
  limits: LaneLimits
  /** How long a sender has a delivery before another may claim it. */
  leaseMs: number
  /** How many calls of one owner may be under way in this process, and how many of each are (`shareKey`). */
  share: { most: number; underWay: ReadonlyMap<string, number> }
}

/**
 * True when its registration was paused or disabled since it was made due, or deleted, or its owner; a test may begin while
 * it is paused.
 */
export const isStopped = ({ webhookId, webhook, isTest, stops }: Due): boolean => {
  if (webhookId === null) return false
  if (webhook === null || stops < webhook.stops) return true
  return isTest !== 1 && webhook.status !== 'active'
}

/** A quarter of the hands for each owner: nobody's many endpoints leave none for the others. */
export function shareOf(hands: number, flying: Iterable<Due>): ClaimOptions['share'] {
  const underWay = new Map<string, number>()
  for (const due of flying) {
    const key = shareKey(due)
    underWay.set(key, (underWay.get(key) ?? 0) + 1)
  }
  return { most: Math.max(1, Math.floor(hands / 4)), underWay }
}

/** Whose share of the hands a delivery takes. */
const shareKey = ({ ownerClient, ownerSubject }: Owned): string => `${ownerClient} ${ownerSubject}`

/** An owner whose share is taken stands back for so long, unless one of its calls ends before. */
const shareTakenMs = 200

/**
 * Claims up to `most` due deliveries, a few of each endpoint: the longest due lanes first, and of each no more than its
 * limits and its owner's share admit. What a slow or dead endpoint has waiting is not even looked at.
 */
export function claimDue({ db, limits, leaseMs, share }: ClaimOptions, most: number, nowMs: number): Promise<Due[]> {
  return db.write(async (tx) => {
    const lanes = await dueLanes(tx, db, limits, most, nowMs)
    if (lanes.length === 0) return []
    const ids: string[] = []
    const underWay = new Map(share.underWay)
    const admitted = lanes.map(({ failures, openUntil, recent, inFlight, waiting, lane, owner }) => {
      const due = JSON.parse(waiting ?? '[]') as string[]
      const taken = underWay.get(owner ?? '') ?? 0
      const left = Math.min(due.length, most - ids.length)
      const mine = Math.min(left, Math.max(0, share.most - taken))
      const state = { failures, openUntil, recent: JSON.parse(recent), inFlight, waiting: mine }
      const admission = admit(state, nowMs, limits, leaseMs)
      ids.push(...due.slice(0, admission.count))
      underWay.set(owner ?? '', taken + admission.count)
      const isCut = mine < left && admission.count === mine
      return {
        lane,
        ...admission,
        floorMs: isCut ? Math.max(admission.floorMs, nowMs + shareTakenMs) : admission.floorMs,
      }
    })
    const claimed = ids.length === 0 ? [] : await lease(tx, db, ids, iso(nowMs + leaseMs))
    await arm(tx, db, armed(admitted, claimed, nowMs))
    return claimed
  })
}

/** When each lane is looked at next. Where others hold what was admitted, that is soon, and counts as not begun. */
function armed(admitted: readonly (Admission & { lane: string })[], claimed: readonly Due[], nowMs: number) {
  const leased = Map.groupBy(claimed, ({ lane }) => lane)
  return admitted.map(({ lane, count, floorMs, recent }) => {
    const missed = count - (leased.get(lane)?.length ?? 0)
    const begun = missed === 0 ? recent : recent.slice(0, -missed)
    return [lane, iso(missed === 0 ? floorMs : nowMs), JSON.stringify(begun)]
  })
}

/** The lanes to look at, locked, each with the first of its deliveries that are due. */
async function dueLanes(tx: Queryable, { engine }: Database, limits: LaneLimits, most: number, nowMs: number) {
  const instant = iso(nowMs)
  const first = sql`(select ${engine.jsonArray(sql`w.id`)} from (
    select id from deliveries where lane = l.lane and status = 'pending' and lease_until is null
      and next_attempt_at <= ${instant} order by next_attempt_at, id limit ${atMost(limits.inFlight)}) as w)`
  const owner = sql`(select owner_client || ' ' || owner_subject from deliveries where lane = l.lane
    and status = 'pending' and lease_until is null order by next_attempt_at, id limit 1)`
  const { rows } = await sql<Looked>`
    select lane, failures, open_until, recent, ${first} as waiting, ${owner} as owner,
      (select count(*) from deliveries where lane = l.lane and lease_until is not null) as in_flight
    from delivery_lanes as l where due_at <= ${instant} order by due_at limit ${atMost(most)} ${engine.lockFreeRows}`.execute(
    tx,
  )
  return rows
}

async function lease(tx: Queryable, { engine }: Database, ids: string[], leaseUntil: string): Promise<Due[]> {
  const wanted = sql`select value ->> 0 from ${engine.jsonRows(JSON.stringify(ids.map((id) => [id])))}`
  // Whoever ends a registration holds its deliveries for a moment: those are passed over. Found by their ids, and not by
  // an index of states: hence the negation.
  const { rows } = await sql<Omit<Due, 'webhook'>>`
    update deliveries set lease_until = ${leaseUntil}, fence = fence + 1 where id in (
      select id from deliveries where id in (${wanted}) and not (status <> 'pending') and lease_until is null
      ${engine.lockFreeRows})
    returning id, fence, lane, event_id as "eventId", webhook_id as "webhookId", url, body, attempts, round,
      tries_before as "triesBefore", is_test as "isTest", stops, owner_client as "ownerClient", owner_subject as "ownerSubject",
      (select type from events where events.id = deliveries.event_id) as type`.execute(tx.withoutPlugins())
  const webhooks = await registrationsOf(tx, { engine }, rows)
  return rows.map((row) => {
    const webhook = webhooks.get(row.id) ?? null
    return { ...row, url: webhook?.callbackUrl ?? row.url, webhook }
  })
}

/** Sets when lanes are looked at next: when their first waiting delivery is due, but not before the given instant. */
async function arm(tx: Queryable, { engine }: Database, rows: string[][]): Promise<void> {
  await sql`
    update delivery_lanes set recent = a.recent, due_at = case when ${firstWaiting} < a.floor then a.floor
      else ${firstWaiting} end
    from (select value ->> 0 as lane, value ->> 1 as floor, value ->> 2 as recent
      from ${engine.jsonRows(JSON.stringify(rows))}) as a where a.lane = delivery_lanes.lane`.execute(tx)
}

/** When the next lane is due, in epoch ms; null when nothing waits anywhere. */
export async function nextDue({ read }: Database): Promise<number | null> {
  const { rows } = await sql<{ at: string | null }>`
    select min(due_at) as at from delivery_lanes where due_at is not null`.execute(read)
  return rows[0]?.at == null ? null : Date.parse(rows[0].at)
}
