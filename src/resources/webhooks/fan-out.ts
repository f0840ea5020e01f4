import type { Selectable } from 'kysely'
import { newId, type RandomBytes } from '../../db/ids.ts'
import type { Database, Queryable } from '../../db/open.ts'
import type { EventsTable } from '../../db/tables.ts'
import { patternsOf } from '../../queue/events.ts'
import type { Queue, Work } from '../../queue/queue.ts'

export interface FanOutOptions {
  db: Database
  queue: Queue
  now: () => number
  random: RandomBytes
}

type Event = Selectable<EventsTable>

interface Target {
  webhookId: string | null
  url: string
  payloadStyle: 'plain' | 'envelope'
}

/**
 * Work of `event.fan-out`: one delivery per registration that hears of it, of the event's owner or of its audience, and
 * one for the address given with the request, unless a registration has the same. Running twice adds nothing.
 */
export const fanOut = ({ db, queue, now, random }: FanOutOptions): Work => {
  return async (job) => {
    const { eventId } = job.payload as { eventId: string }
    const instant = new Date(now()).toISOString()
    await db.write(async (tx) => {
      // First, so that a second run of this job waits here and then ends without a trace.
      await job.finish(tx)
      const event = await tx.selectFrom('events').selectAll().where('id', '=', eventId).executeTakeFirst()
      if (event === undefined) return
      for (const target of await targetsOf(tx, event)) {
        const id = await addDelivery(tx, event, target, newId('dlv', random), instant)
        if (id !== undefined) await queue.enqueue(tx, 'delivery.send', { deliveryId: id })
      }
    })
  }
}

async function targetsOf(tx: Queryable, event: Event): Promise<Target[]> {
  const registered = event.audience === null ? await ofOwner(tx, event) : await ofAudience(tx, event, event.audience)
  const { callbackUrl: url } = event
  if (url === null || registered.some((one) => sameUrl(one.url, url)) || (await isTold(tx, event))) return registered
  return [...registered, { webhookId: null, url, payloadStyle: 'plain' }]
}

const active = (tx: Queryable, { type, exceptWebhook }: Event) =>
  tx
    .selectFrom('webhooks')
    .select(['webhooks.id as webhookId', 'callbackUrl as url', 'payloadStyle'])
    .where('status', '=', 'active')
    .where('event', 'in', patternsOf(type))
    .where('webhooks.id', 'is distinct from', exceptWebhook)
    .orderBy('webhooks.id')

const ofOwner = (tx: Queryable, event: Event): Promise<Target[]> =>
  active(tx, event)
    .where('ownerClient', '=', event.ownerClient)
    .where('ownerSubject', '=', event.ownerSubject)
    .execute()

/**
 * Registrations of everybody who may read: the token that registered had the scope, and its client has it still. A client
 * that is not kept here is another issuer's.
 */
async function ofAudience(tx: Queryable, event: Event, audience: string): Promise<Target[]> {
  const found = await active(tx, event)
    .leftJoin('clients', 'clients.id', 'webhooks.ownerClient')
    .select(['webhooks.scopes as granted', 'clients.scopes as allowed', 'clients.revokedAt'])
    .execute()
  const has = (scopes: string | null) => audience === 'any' || (scopes ?? '').split(' ').includes(audience)
  return found
    .filter(
      ({ granted, allowed, revokedAt }) => revokedAt === null && has(granted) && (allowed === null || has(allowed)),
    )
    .map(({ webhookId, url, payloadStyle }) => ({ webhookId, url, payloadStyle }))
}

const sameUrl = (one: string, other: string): boolean =>
  one === other || URL.parse(one)?.href === URL.parse(other)?.href

/** A unique constraint holds any number of nulls, so the delivery without a registration must be looked for. */
async function isTold(tx: Queryable, { id }: Event): Promise<boolean> {
  const told = tx.selectFrom('deliveries').select('id').where('eventId', '=', id).where('webhookId', 'is', null)
  return (await told.executeTakeFirst()) !== undefined
}

/** Returns the id, or undefined when the event has this delivery already. */
async function addDelivery(tx: Queryable, event: Event, target: Target, id: string, instant: string) {
  const { webhookId, url, payloadStyle } = target
  const body = payloadStyle === 'plain' ? event.body : envelope(event)
  const added = await tx
    .insertInto('deliveries')
    .values({
      id,
      eventId: event.id,
      webhookId,
      url,
      body,
      status: 'pending',
      attempts: 0,
      nextAttemptAt: instant,
      createdAt: instant,
      completedAt: null,
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning('id')
    .executeTakeFirst()
  return added?.id
}

/** The payload structure that Standard Webhooks recommends, around the bytes of the plain body. */
const envelope = ({ type, createdAt, body }: Event): string =>
  `{"type":${JSON.stringify(type)},"timestamp":${JSON.stringify(createdAt)},"data":${body}}`
