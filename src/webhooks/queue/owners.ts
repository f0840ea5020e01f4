import { type RawBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import { limitExpression } from '../../storage/rows/page-query.ts'
import { maxSwept } from '../../storage/sweep.ts'
import { type Rank, ranks, roomFor, type Slots, withoutShare } from './shares.ts'

/** When an owner's queues with a given rank are due; null for never. */
export interface OwnerDue {
  owner: string
  rank: number
  dueAt: string | null
}

/**
 * Schedules each owner's next delivery check for the given time, unless an earlier one is already scheduled. To avoid
 * deadlocks, locks the owners' rows in sorted order, after the rows of their queues.
 */
export async function armOwners(tx: Queryable, { engine }: Database, due: readonly OwnerDue[]): Promise<void> {
  const earliest = new Map<string, [owner: string, rank: number, dueAt: string]>()
  for (const { owner, rank, dueAt } of due) {
    const key = `${rank} ${owner}`
    if (dueAt !== null && dueAt < (earliest.get(key)?.[2] ?? '~')) earliest.set(key, [owner, rank, dueAt])
  }
  if (earliest.size === 0) return
  const rows = [...earliest].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row)
  await sql`
    insert into delivery_owners (owner, rank, due_at)
    select value ->> 0, cast(value ->> 1 as integer), value ->> 2 from ${engine.jsonRows(JSON.stringify(rows))} where true
    on conflict (owner, rank) do update set due_at = excluded.due_at
    where delivery_owners.due_at is null or delivery_owners.due_at > excluded.due_at`.execute(tx)
}

/**
 * Returns a condition that excludes owners that have used up their share, so that their waiting deliveries are not
 * read.
 */
function hasShare({ engine }: Database, slots: Slots, rank: Rank): RawBuilder<unknown> {
  const owners = withoutShare(slots, rank)
  if (owners.length === 0) return sql``
  return sql`and owner not in (
    select value ->> 0 from ${engine.jsonRows(JSON.stringify(owners.map((owner) => [owner])))})`
}

/** Locks and returns up to `max` owners that have due queues of this rank and a share left, longest overdue first. */
export async function dueOwners(
  tx: Queryable,
  db: Database,
  slots: Slots,
  { rank, max, nowMs }: { rank: Rank; max: number; nowMs: number },
): Promise<string[]> {
  const { rows } = await sql<{ owner: string }>`
    select owner from delivery_owners where rank = ${rank} and due_at <= ${iso(nowMs)} ${hasShare(db, slots, rank)}
    order by due_at limit ${limitExpression(max)} ${db.engine.lockFreeRows}`.execute(tx)
  return rows.map(({ owner }) => owner)
}

/**
 * Sets when to check these owners next: when their first queue is due, but not before now, so that owners that were
 * just served go behind those still waiting. The caller must have locked the owners.
 */
export async function settleOwners(
  tx: Queryable,
  { engine }: Database,
  checked: readonly { owner: string; rank: Rank }[],
  nowMs: number,
): Promise<void> {
  if (checked.length === 0) return
  const rows = JSON.stringify(checked.map(({ owner, rank }) => [owner, rank]))
  const first = sql`(select min(l.due_at) from delivery_lanes as l
    where l.owner = delivery_owners.owner and l.rank = delivery_owners.rank and l.due_at is not null)`
  const instant = iso(nowMs)
  await sql`
    update delivery_owners set due_at = case when ${first} < ${instant} then ${instant} else ${first} end
    from (select value ->> 0 as owner, cast(value ->> 1 as integer) as rank from ${engine.jsonRows(rows)}) as a
    where a.owner = delivery_owners.owner and a.rank = delivery_owners.rank`.execute(tx)
}

/** Returns when the next owner that may take a slot is due, in epoch ms; null if there is none. */
export async function nextDue(db: Database, slots: Slots): Promise<number | null> {
  const open = ranks.filter((rank) => roomFor(slots, rank) > 0)
  if (open.length === 0) return null
  const firsts = open.map(
    (rank) => sql`select (select due_at from delivery_owners where rank = ${rank} and due_at is not null
      ${hasShare(db, slots, rank)} order by due_at limit 1) as at`,
  )
  const { rows } = await sql<{ at: string | null }>`
    select min(at) as at from (${sql.join(firsts, sql` union all `)}) as firsts`.execute(db.read)
  return rows[0]?.at == null ? null : Date.parse(rows[0].at)
}

const overdueMs = 60_000
const maxRevived = 200

/**
 * Schedules checks of the owners of up to `maxRevived` overdue queues, because nodes of an earlier release schedule
 * queues, but not their owners. Returns the number of overdue queues found.
 */
export async function reviveOwners(db: Database, now: () => number): Promise<number> {
  const { rows } = await sql<OwnerDue>`
    select owner, rank, due_at from delivery_lanes where due_at <= ${iso(now() - overdueMs)}
    order by due_at limit ${maxRevived}`.execute(db.read)
  if (rows.length > 0) await db.write((tx) => armOwners(tx, db, rows))
  return rows.length
}

/** Deletes up to `maxSwept` rows of owners that have nothing to send; skips rows locked by another transaction. */
export async function removeIdleOwners(tx: Queryable, { engine }: Database): Promise<void> {
  await sql`
    delete from delivery_owners where due_at is null and (owner, rank) in (
      select owner, rank from delivery_owners where due_at is null limit ${sql.lit(maxSwept)} ${engine.lockFreeRows})`.execute(
    tx,
  )
}
