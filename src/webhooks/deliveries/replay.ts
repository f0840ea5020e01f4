import { type AuditActor, auditRecorder } from '../../audit/chain.ts'
import type { Caller } from '../../http/policies/authenticate.ts'
import type { Precondition } from '../../http/policies/conditional.ts'
import type { EventAccess } from '../../queue/events.ts'
import type { Queue, Work } from '../../queue/queue.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Webhook } from '../../storage/tables/tables.ts'
import { effectiveScopes } from '../dispatch/subscribers.ts'
import { scheduleEndpointQueues } from '../queue/endpoint-queue.ts'
import { hold, refuseInactive, type Store } from '../registrations.ts'
import { deliveriesBy } from './delivery-index.ts'
import { makeDue } from './enqueue.ts'
import { lockWebhook } from './settle.ts'

interface Replaying extends Store {
  queue: Queue
  access: EventAccess
}

/**
 * The deliveries to send again: those created from `since` (inclusive) to `until` (exclusive), both ISO 8601 with
 * milliseconds.
 */
export interface Range {
  since: string
  until: string
  event?: string
  status?: 'delivered' | 'failed'
}

/** A delivery selected for replay, with its `round` when it was selected; any later resend increments the round. */
interface Selected {
  id: string
  round: number
}

/**
 * Maximum numbers of deliveries that one replay selects and examines. Only deliveries with the same timestamp can
 * exceed these limits.
 */
const maxReplayed = 500
const maxExamined = 1_000
/** Maximum number of deliveries made due per transaction. */
export const replayedAtOnce = 50

/**
 * Replays the deliveries of a time range, oldest first, except tests, pending deliveries, and events that the webhook
 * may no longer receive. A job makes the deliveries due in batches. Returns the number of selected deliveries and, if
 * more are left, the `since` of the next replay. Throws RESOURCE_NOT_FOUND, PRECONDITION_FAILED or WEBHOOK_NOT_ACTIVE.
 */
export async function replay(
  tx: Queryable,
  { db, sealer, queue, access, now }: Replaying,
  caller: Caller,
  { id, precondition, ...range }: Range & { id: string; precondition: Precondition },
  actor: AuditActor,
): Promise<{ count: number; nextSince?: string }> {
  const webhook = await hold(tx, caller, id, precondition)
  refuseInactive(webhook)
  const { selected, nextSince } = await selectDeliveries(tx, { db, access }, webhook, range)
  const deliveries = selected.map((one) => ({ id: one.id, round: one.round }))
  const { trace } = caller
  if (deliveries.length > 0) await queue.enqueue(tx, 'webhook.replay', { webhookId: id, deliveries }, { trace })
  const details = { count: selected.length, ...range }
  await auditRecorder(sealer, now)(tx, { ...actor, event: 'webhook.replayed', target: id, details })
  return { count: selected.length, ...(nextSince && { nextSince }) }
}

interface ReplayOptions {
  db: Database
  now: () => number
  /** Called after each batch of deliveries becomes due. */
  onAdded: () => void
}

/**
 * Handles `webhook.replay` jobs: makes the selected deliveries due, a few per transaction, as long as the webhook is
 * active. If the job runs again, it does not resend deliveries that it has already resent.
 */
export const replaySelected = ({ db, now, onAdded }: ReplayOptions): Work => {
  const step = (webhookId: string, some: readonly Selected[]) =>
    db.write(async (tx) => {
      const webhook = await lockWebhook(tx, db, webhookId)
      if (webhook?.status !== 'active') return
      const ids = await unchanged(tx, db, some)
      if (ids.length === 0) return
      const instant = new Date(now()).toISOString()
      await makeDue(tx, webhook, ids, instant)
      await tx.updateTable('deliveries').set({ lane: webhookId }).where('id', 'in', ids).execute()
      await scheduleEndpointQueues(tx, db, new Map([[webhookId, instant]]))
    })
  return async ({ payload, signal, finish }) => {
    const { webhookId, deliveries } = payload as { webhookId: string; deliveries: Selected[] }
    for (let at = 0; at < deliveries.length; at += replayedAtOnce) {
      signal.throwIfAborted()
      await step(webhookId, deliveries.slice(at, at + replayedAtOnce))
      onAdded()
    }
    await db.write(finish)
  }
}

/** Returns the ids of the deliveries that have not been resent since they were selected, and locks their rows. */
async function unchanged(tx: Queryable, { engine }: Database, selected: readonly Selected[]): Promise<string[]> {
  const ids = selected.map(({ id }) => id)
  const held = tx.selectFrom('deliveries').select(['id', 'round', 'status']).where('id', 'in', ids)
  const found = new Map((await held.orderBy('id').modifyEnd(engine.lockRows).execute()).map((row) => [row.id, row]))
  return selected.flatMap(({ id, round }) => {
    const row = found.get(id)
    return row?.round === round && row.status !== 'pending' ? [id] : []
  })
}

/** The database, and the access rules that decide which of a webhook's deliveries may be sent again. */
interface Rules {
  db: Database
  access: EventAccess
}

/**
 * Selects the deliveries of one replay and determines where the next replay begins. Deliveries with the same timestamp
 * stay together, even if they exceed the limit, so that no two replays send the same delivery. A replay with a
 * selective filter may examine many deliveries and select none of them; it still returns where the next one begins.
 */
async function selectDeliveries(tx: Queryable, rules: Rules, webhook: Webhook, range: Range) {
  const found = await endedWithin(tx, rules, webhook, range, maxExamined + 1)
  const selected = found.filter(({ isWanted }) => isWanted)
  const next = selected[maxReplayed] ?? found[maxExamined]
  if (next === undefined) return { selected }
  const nextSince = next.createdAt
  if (nextSince > (found[0]?.createdAt ?? '')) {
    return { selected: selected.filter(({ createdAt }) => createdAt < nextSince), nextSince }
  }
  const after = new Date(Date.parse(nextSince) + 1).toISOString()
  const instant = await endedWithin(tx, rules, webhook, { ...range, until: after })
  return { selected: instant.filter(({ isWanted }) => isWanted), nextSince: after }
}

/** Lists the deliveries of a time range, oldest first, each with a flag that tells whether to resend it. */
async function endedWithin(tx: Queryable, { db, access }: Rules, webhook: Webhook, range: Range, max?: number) {
  const { status, event } = range
  const chosen = { event, ...(status === 'failed' && { status }) }
  const found = await deliveriesBy(tx, db, webhook.id, chosen)
    .innerJoin('events', 'events.id', 'deliveries.eventId')
    .select(['deliveries.id', 'deliveries.createdAt', 'deliveries.status', 'isTest', 'round'])
    .select(['audience', 'type', 'facts'])
    .where('deliveries.createdAt', '>=', range.since)
    .where('deliveries.createdAt', '<', range.until)
    .orderBy('deliveries.createdAt')
    .orderBy('deliveries.id')
    .$if(max !== undefined, (some) => some.limit(max as number))
    .execute()
  const scopes = found.length > 0 ? await effectiveScopes(tx, webhook) : []
  const isCovered = (audience: string | null) => audience === null || audience === 'any' || scopes.includes(audience)
  const isEnded = (one: (typeof found)[number]) =>
    status === undefined ? one.status !== 'pending' : one.status === status
  const mayReceive = access.judge()
  const selected: (Pick<(typeof found)[number], 'id' | 'createdAt' | 'round'> & { isWanted: boolean })[] = []
  for (const one of found) {
    const { id, createdAt, round, type } = one
    const isCandidate = one.isTest === 0 && isCovered(one.audience) && isEnded(one)
    const isWanted = isCandidate && (!access.appliesTo(type) || (await mayReceive(webhook, one)))
    selected.push({ id, createdAt, round, isWanted })
  }
  return selected
}
