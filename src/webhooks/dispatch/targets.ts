import type { Selectable } from 'kysely'
import { sql } from 'kysely'
import { patternsOf } from '../../queue/events.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Owned } from '../../storage/rows/revision.ts'
import type { EventsTable } from '../../storage/tables/tables.ts'
import { withLiveOwners } from './subscribers.ts'

/** An event row with the columns needed to find its targets. */
export type Event = Selectable<EventsTable>

/** Where an event is sent: a webhook, or the callback URL of a request. */
export interface EventTarget extends Owned {
  webhookId: string | null
  url: string
  payloadStyle: 'plain' | 'envelope'
  /** The API version whose field names the webhook receives; null for the newest. */
  version: string | null
  /** The number of times that the webhook has been paused or disabled. */
  stops: number
  /** The scopes of the token that registered the webhook, if any. */
  scopes: string | null
}

/** Returns a function that finds an event's targets. Lookups needed by several events run only once. */
export function targetsIn(tx: Queryable, db: Database, events: readonly Event[]) {
  const owners = ofOwners(tx, db, events)
  const registrations = new Map<string, Promise<readonly EventTarget[]>>()
  const registered = (event: Event): Promise<readonly EventTarget[]> => {
    const { type, audience, exceptWebhook, ownerClient, ownerSubject } = event
    const key = JSON.stringify([type, exceptWebhook, audience ?? [ownerClient, ownerSubject]])
    const known = registrations.get(key)
    if (known !== undefined) return known
    const found = audience === null ? subscribedByOwner(owners, event) : ofAudience(tx, db, event, audience)
    registrations.set(key, found)
    return found
  }
  const delivered = alreadyDelivered(tx, db, events)
  return async (event: Event): Promise<readonly EventTarget[]> => {
    const targets = await registered(event)
    const { callbackUrl: url, ownerClient, ownerSubject } = event
    if (url === null) return targets
    // A client that sent a callback URL expects the plain body at that URL.
    const isCalled = targets.some((one) => one.payloadStyle === 'plain' && sameUrl(one.url, url))
    if (isCalled || (await delivered).has(event.id)) return targets
    return [
      ...targets,
      { webhookId: null, ownerClient, ownerSubject, url, payloadStyle: 'plain', version: null, stops: 0, scopes: null },
    ]
  }
}

interface Registered extends EventTarget {
  event: string
}

const ownerKey = ({ ownerClient, ownerSubject }: Owned): string => JSON.stringify([ownerClient, ownerSubject])

/** Finds the active webhooks of these events' owners and groups them by owner. */
async function ofOwners(tx: Queryable, db: Database, events: readonly Event[]) {
  const owners = new Map(events.filter(({ audience }) => audience === null).map((event) => [ownerKey(event), event]))
  if (owners.size === 0) return new Map<string, Registered[]>()
  const wanted = JSON.stringify(
    [...owners.values()].map(({ ownerClient, ownerSubject }) => [ownerClient, ownerSubject]),
  )
  const { rows } = await sql<Registered>`
    select id as webhook_id, callback_url as url, payload_style, version, event, owner_client, owner_subject, stops, scopes
    from webhooks
    where status = 'active'
      and (owner_client, owner_subject) in (select value ->> 0, value ->> 1 from ${db.engine.jsonRows(wanted)})
    order by id`.execute(tx)
  return Map.groupBy(await withLiveOwners(tx, db, rows), ownerKey)
}

/** Returns the owner's webhooks that subscribe to the event. */
async function subscribedByOwner(owners: ReturnType<typeof ofOwners>, event: Event): Promise<readonly EventTarget[]> {
  const patterns = patternsOf(event.type)
  const registered = (await owners).get(ownerKey(event)) ?? []
  return registered.filter((one) => patterns.includes(one.event) && one.webhookId !== event.exceptWebhook)
}

const active = (tx: Queryable, { type, exceptWebhook }: Event) =>
  tx
    .selectFrom('webhooks')
    .select(['webhooks.id as webhookId', 'ownerClient', 'ownerSubject'])
    .select(['callbackUrl as url', 'payloadStyle', 'version', 'stops', 'webhooks.scopes'])
    .where('status', '=', 'active')
    .where('event', 'in', patternsOf(type))
    .where('webhooks.id', 'is distinct from', exceptWebhook)
    .orderBy('webhooks.id')

/**
 * Finds the webhooks of everyone who may read the event: the registering token had the required scope, and its client
 * still has it. A client that is not stored here belongs to another issuer.
 */
async function ofAudience(
  tx: Queryable,
  db: Database,
  event: Event,
  audience: string,
): Promise<readonly EventTarget[]> {
  const found = await active(tx, event)
    .leftJoin('clients', 'clients.id', 'webhooks.ownerClient')
    .select(['clients.scopes as allowed', 'clients.revokedAt'])
    .execute()
  const has = (scopes: string | null) => audience === 'any' || (scopes ?? '').split(' ').includes(audience)
  const may = found.filter(
    ({ scopes, allowed, revokedAt }) => revokedAt === null && has(scopes) && (allowed === null || has(allowed)),
  )
  return withLiveOwners(tx, db, may)
}

const sameUrl = (one: string, other: string): boolean =>
  one === other || URL.parse(one)?.href === URL.parse(other)?.href

/**
 * Returns the ids of events whose callback URL already has a delivery. A query is needed, because a unique constraint
 * ignores nulls.
 */
async function alreadyDelivered(tx: Queryable, { engine }: Database, events: readonly Event[]): Promise<Set<string>> {
  const ids = events.filter(({ callbackUrl }) => callbackUrl !== null).map(({ id }) => [id])
  if (ids.length === 0) return new Set()
  const { rows } = await sql<{ eventId: string }>`
    select event_id from deliveries where webhook_id is null
      and event_id in (select value ->> 0 from ${engine.jsonRows(JSON.stringify(ids))})`.execute(tx)
  return new Set(rows.map(({ eventId }) => eventId))
}
