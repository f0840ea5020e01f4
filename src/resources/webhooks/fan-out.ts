import { type Selectable, sql } from 'kysely'
import { newOrderedId, type RandomBytes } from '../../db/ids.ts'
import type { Database, Queryable } from '../../db/open.ts'
import type { EventsTable, Owned } from '../../db/tables.ts'
import { patternsOf } from '../../queue/events.ts'
import type { WorkTogether } from '../../queue/queue.ts'
import { ofPresentOwners } from './hearing.ts'
import { armLanes, laneOf } from './lanes.ts'

export interface FanOutOptions {
  db: Database
  now: () => number
  random: RandomBytes
  /** Told after deliveries were added. */
  onAdded?: () => void
}

type Event = Selectable<EventsTable>

interface Target extends Owned {
  webhookId: string | null
  url: string
  payloadStyle: 'plain' | 'envelope'
  /** Of the registration: how often it was stopped before. */
  stops: number
}

/**
 * Work of `event.fan-out`, many events at a time: one delivery per registration that hears of it, of the event's owner or
 * of its audience, and one for the address given with the request, unless a registration has the same and takes the plain
 * body. Running twice adds nothing.
 */
export const fanOut = ({ db, now, random, onAdded }: FanOutOptions): WorkTogether => {
  return async ({ payloads, finish }) => {
    const instant = new Date(now()).toISOString()
    await db.write(async (tx) => {
      // First, so that a second run of these jobs waits here and then ends without a trace.
      await finish(tx)
      const events = await eventsOf(tx, db, payloads)
      const targets = targetsIn(tx, db, events)
      const rows: (string | number)[][] = []
      for (const event of events) {
        for (const target of await targets(event)) {
          rows.push(deliveryRow(event, target, newOrderedId('dlv', random, instant)))
        }
      }
      await addDeliveries(tx, db, rows, instant)
    })
    onAdded?.()
  }
}

async function eventsOf(tx: Queryable, { engine }: Database, payloads: readonly unknown[]): Promise<Event[]> {
  const ids = engine.jsonRows(JSON.stringify((payloads as { eventId: string }[]).map(({ eventId }) => [eventId])))
  const { rows } = await sql<Event>`
    select id, type, owner_client as "ownerClient", owner_subject as "ownerSubject", audience, body,
      callback_url as "callbackUrl", except_webhook as "exceptWebhook", created_at as "createdAt"
    from events where id in (select value ->> 0 from ${ids})`.execute(tx.withoutPlugins())
  return rows
}

/** Finds the targets of events; what several events have in common is looked up once. */
function targetsIn(tx: Queryable, db: Database, events: readonly Event[]) {
  const owners = ofOwners(tx, db, events)
  const registrations = new Map<string, Promise<readonly Target[]>>()
  const registered = (event: Event): Promise<readonly Target[]> => {
    const { type, audience, exceptWebhook, ownerClient, ownerSubject } = event
    const key = JSON.stringify([type, exceptWebhook, audience ?? [ownerClient, ownerSubject]])
    const known = registrations.get(key)
    if (known !== undefined) return known
    const found = audience === null ? heardOfOwner(owners, event) : ofAudience(tx, db, event, audience)
    registrations.set(key, found)
    return found
  }
  const told = toldAlready(tx, db, events)
  return async (event: Event): Promise<readonly Target[]> => {
    const targets = await registered(event)
    const { callbackUrl: url, ownerClient, ownerSubject } = event
    if (url === null) return targets
    // Whoever gave an address with a request expects the plain body there.
    const isCalled = targets.some((one) => one.payloadStyle === 'plain' && sameUrl(one.url, url))
    if (isCalled || (await told).has(event.id)) return targets
    return [...targets, { webhookId: null, ownerClient, ownerSubject, url, payloadStyle: 'plain', stops: 0 }]
  }
}

interface Registered extends Target {
  event: string
}

const ownerKey = ({ ownerClient, ownerSubject }: Owned): string => JSON.stringify([ownerClient, ownerSubject])

/** The active registrations of everybody who owns one of these events, by owner. */
async function ofOwners(tx: Queryable, db: Database, events: readonly Event[]) {
  const owners = new Map(events.filter(({ audience }) => audience === null).map((event) => [ownerKey(event), event]))
  if (owners.size === 0) return new Map<string, Registered[]>()
  const wanted = JSON.stringify(
    [...owners.values()].map(({ ownerClient, ownerSubject }) => [ownerClient, ownerSubject]),
  )
  const { rows } = await sql<Registered>`
    select id as webhook_id, callback_url as url, payload_style, event, owner_client, owner_subject, stops from webhooks
    where status = 'active'
      and (owner_client, owner_subject) in (select value ->> 0, value ->> 1 from ${db.engine.jsonRows(wanted)})
    order by id`.execute(tx)
  return Map.groupBy(await ofPresentOwners(tx, db, rows), ownerKey)
}

/** The registrations of an event's owner that hear of it. */
async function heardOfOwner(owners: ReturnType<typeof ofOwners>, event: Event): Promise<readonly Target[]> {
  const patterns = patternsOf(event.type)
  const registered = (await owners).get(ownerKey(event)) ?? []
  return registered.filter((one) => patterns.includes(one.event) && one.webhookId !== event.exceptWebhook)
}

const active = (tx: Queryable, { type, exceptWebhook }: Event) =>
  tx
    .selectFrom('webhooks')
    .select(['webhooks.id as webhookId', 'ownerClient', 'ownerSubject'])
    .select(['callbackUrl as url', 'payloadStyle', 'stops'])
    .where('status', '=', 'active')
    .where('event', 'in', patternsOf(type))
    .where('webhooks.id', 'is distinct from', exceptWebhook)
    .orderBy('webhooks.id')

/**
 * Registrations of everybody who may read: the token that registered had the scope, and its client has it still. A client
 * that is not kept here is another issuer's.
 */
async function ofAudience(tx: Queryable, db: Database, event: Event, audience: string): Promise<readonly Target[]> {
  const found = await active(tx, event)
    .leftJoin('clients', 'clients.id', 'webhooks.ownerClient')
    .select(['webhooks.scopes as granted', 'clients.scopes as allowed', 'clients.revokedAt'])
    .execute()
  const has = (scopes: string | null) => audience === 'any' || (scopes ?? '').split(' ').includes(audience)
  const may = found.filter(
    ({ granted, allowed, revokedAt }) => revokedAt === null && has(granted) && (allowed === null || has(allowed)),
  )
  return ofPresentOwners(tx, db, may)
}

const sameUrl = (one: string, other: string): boolean =>
  one === other || URL.parse(one)?.href === URL.parse(other)?.href

/** A unique constraint holds any number of nulls, so deliveries without a registration must be looked for. */
async function toldAlready(tx: Queryable, { engine }: Database, events: readonly Event[]): Promise<Set<string>> {
  const ids = events.filter(({ callbackUrl }) => callbackUrl !== null).map(({ id }) => [id])
  if (ids.length === 0) return new Set()
  const { rows } = await sql<{ eventId: string }>`
    select event_id from deliveries where webhook_id is null
      and event_id in (select value ->> 0 from ${engine.jsonRows(JSON.stringify(ids))})`.execute(tx)
  return new Set(rows.map(({ eventId }) => eventId))
}

const deliveryRow = (event: Event, target: Target, id: string): (string | number)[] => [
  ...[id, event.id, target.webhookId as string, target.url],
  ...[bodyFor(event, target.payloadStyle), laneOf(target, event.ownerClient)],
  ...[target.ownerClient, target.ownerSubject, event.type, target.stops],
]

/** Adds deliveries that are due at once; those that an event has already are passed over. */
async function addDeliveries(tx: Queryable, db: Database, rows: (string | number)[][], instant: string): Promise<void> {
  if (rows.length === 0) return
  const { rows: added } = await sql<{ lane: string }>`
    insert into deliveries (id, event_id, webhook_id, url, body, lane, owner_client, owner_subject, event_type,
      stops, status, attempts, next_attempt_at, created_at)
    select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8,
      cast(value ->> 9 as integer), 'pending', 0, ${instant}, ${instant}
    from ${db.engine.jsonRows(JSON.stringify(rows))} where true
    on conflict do nothing returning lane`.execute(tx.withoutPlugins())
  await armLanes(tx, db, new Map(added.map(({ lane }) => [lane, instant])))
}

/** The text that is sent: the plain body, or the payload structure that Standard Webhooks recommends around its bytes. */
export const bodyFor = (
  { type, createdAt, body }: Pick<Event, 'type' | 'createdAt' | 'body'>,
  style: Target['payloadStyle'],
): string =>
  style === 'plain' ? body : `{"type":${JSON.stringify(type)},"timestamp":${JSON.stringify(createdAt)},"data":${body}}`
