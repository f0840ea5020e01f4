import { type AuditActor, auditRecorder } from '../../db/audit.ts'
import type { Database, Queryable } from '../../db/open.ts'
import type { Webhook } from '../../db/tables.ts'
import type { Precondition } from '../../http/conditional.ts'
import type { Caller } from '../../http/identify.ts'
import { Problem } from '../../http/problem.ts'
import type { Queue } from '../../queue/queue.ts'
import { deliveriesBy } from './delivery-index.ts'
import { findDelivery } from './delivery-log.ts'
import { scopesHeard, toldOf } from './hearing.ts'
import { makeDue } from './make-due.ts'
import { hold, type Store } from './registrations.ts'

interface Sending extends Store {
  queue: Queue
}

/**
 * Has one delivery sent again: same id, same bytes, new tries. Throws RESOURCE_NOT_FOUND, WEBHOOK_NOT_ACTIVE,
 * PRECONDITION_FAILED by what is demanded of the registration, or PERMISSION_DENIED when it may no longer be told of
 * the event.
 */
export async function redeliver(
  tx: Queryable,
  { sealer, queue, now }: Sending,
  caller: Caller,
  { id, deliveryId, demands }: { id: string; deliveryId: string; demands: Precondition },
  actor: AuditActor,
) {
  const webhook = await hold(tx, caller, id, demands)
  const { test } = await findDelivery(tx, id, deliveryId)
  if (!test) refuseInactive(webhook)
  const one = tx.selectFrom('deliveries').select('id').where('id', '=', deliveryId)
  const told = await one.where(toldOf(await scopesHeard(tx, webhook))).executeTakeFirst()
  if (told === undefined) {
    throw new Problem(
      'PERMISSION_DENIED',
      'The webhook may no longer be told of this event: its scopes do not cover it',
    )
  }
  await makeDue(tx, queue, webhook, [deliveryId], new Date(now()).toISOString())
  const details = { deliveryId }
  await auditRecorder(sealer, now)(tx, { ...actor, event: 'webhook.replayed', target: id, details })
  return findDelivery(tx, id, deliveryId)
}

/** Which deliveries are sent again; instants are fixed-width ISO text. */
export interface Range {
  since: string
  until: string
  event?: string
  status?: 'delivered' | 'failed'
}

/** How many deliveries one replay takes, and how many it looks at, unless a single instant holds more. */
export const mostReplayed = 500
const mostLooked = 1_000

/**
 * Has the deliveries of a time sent again, the oldest first, without those that are on their way; tells how many, and from
 * when on to ask again if there are more. Throws RESOURCE_NOT_FOUND, PRECONDITION_FAILED or WEBHOOK_NOT_ACTIVE.
 */
export async function replay(
  tx: Queryable,
  { db, sealer, queue, now }: Sending,
  caller: Caller,
  { id, demands, ...range }: Range & { id: string; demands: Precondition },
  actor: AuditActor,
): Promise<{ count: number; nextSince?: string }> {
  const webhook = await hold(tx, caller, id, demands)
  refuseInactive(webhook)
  const { chosen, nextSince } = await chosenOf(tx, db, webhook, range)
  const ids = chosen.map((delivery) => delivery.id)
  await makeDue(tx, queue, webhook, ids, new Date(now()).toISOString())
  const details = { count: chosen.length, ...range }
  await auditRecorder(sealer, now)(tx, { ...actor, event: 'webhook.replayed', target: id, details })
  return { count: chosen.length, ...(nextSince && { nextSince }) }
}

/**
 * What one replay takes, and where the next one begins: an instant is taken as a whole, even if it holds more, so that none
 * is sent by both. Where few of many are wanted, one replay may take none of those it looked at, and say where to go on.
 */
async function chosenOf(tx: Queryable, db: Database, webhook: Webhook, range: Range) {
  const found = await endedWithin(tx, db, webhook, range, mostLooked + 1)
  const chosen = found.filter(({ isWanted }) => isWanted)
  const next = chosen[mostReplayed] ?? found[mostLooked]
  if (next === undefined) return { chosen }
  const nextSince = next.createdAt
  if (nextSince > (found[0]?.createdAt ?? '')) {
    return { chosen: chosen.filter(({ createdAt }) => createdAt < nextSince), nextSince }
  }
  const after = new Date(Date.parse(nextSince) + 1).toISOString()
  const instant = await endedWithin(tx, db, webhook, { ...range, until: after })
  return { chosen: instant.filter(({ isWanted }) => isWanted), nextSince: after }
}

/** Deliveries of a time, the oldest first, as an index has them, and which of them are sent again. */
async function endedWithin(tx: Queryable, db: Database, webhook: Webhook, range: Range, most?: number) {
  const { status, event } = range
  const chosen = { event, ...(status === 'failed' && { status }) }
  const found = await deliveriesBy(tx, db, webhook.id, chosen)
    .select(['id', 'eventId', 'createdAt', 'status', 'isTest'])
    .where('createdAt', '>=', range.since)
    .where('createdAt', '<', range.until)
    .orderBy('createdAt')
    .orderBy('id')
    .$if(most !== undefined, (some) => some.limit(most as number))
    .execute()
  const told = await eventsTold(tx, webhook, found)
  const isEnded = (one: (typeof found)[number]) =>
    status === undefined ? one.status !== 'pending' : one.status === status
  return found.map((one) => ({
    id: one.id,
    createdAt: one.createdAt,
    isWanted: one.isTest === 0 && told.has(one.eventId) && isEnded(one),
  }))
}

/** The events of these deliveries that the registration's scopes cover. */
async function eventsTold(tx: Queryable, webhook: Webhook, found: readonly { eventId: string }[]) {
  if (found.length === 0) return new Set<string>()
  const scopes = await scopesHeard(tx, webhook)
  const ids = found.map(({ eventId }) => eventId)
  const told = await tx
    .selectFrom('events')
    .select('id')
    .where('id', 'in', ids)
    .where((event) => event.or([event('audience', 'is', null), event('audience', 'in', ['any', ...scopes])]))
    .execute()
  return new Set(told.map(({ id }) => id))
}

function refuseInactive({ status }: Webhook): void {
  if (status !== 'active') throw new Problem('WEBHOOK_NOT_ACTIVE', `The webhook is ${status}: enable it first`)
}
