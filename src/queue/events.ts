import { type RawBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../storage/database.ts'
import type { Queue } from './queue.ts'

/** An event type that webhooks can subscribe to. */
export interface EventKind {
  description: string
  /** A sample body, as sent with `payloadStyle: plain`. */
  example: object
  /** The sample body's JSON Schema. */
  schema: object
  /**
   * Which webhooks may receive the event: all (`any`), those registered with this scope, or only those of the event's
   * owner (null).
   */
  audience: string | null
}

/** An event to record and deliver to subscribers. */
export interface NewEvent {
  /** The event id, such as `msg_…`, which every delivery contains as `webhook-id`. */
  id: string
  /** The event type, `noun.past`, such as `report.completed`. */
  type: string
  /** The client that caused the event or that owns its subject. */
  ownerClient: string
  ownerSubject: string
  /**
   * Which subscribed webhooks receive the event: all (`any`), those registered with this scope, or only those of the
   * owner (null, the default).
   */
  audience?: string | null
  /** The webhook that the event is about; the event is not sent to it. */
  exceptWebhook?: string
  /** The body, stored once as JSON text, so that every attempt signs and sends the same bytes. */
  body: object
  /** The row's values that access rules compare; only for resources with access rules, and never sent. */
  facts?: object | undefined
  /** A callback URL from the request that caused the event. */
  callbackUrl: string | null
  /** The trace context of the request or job that caused the event. */
  trace?: string | null | undefined
  createdAt: string
}

/** The owner of a webhook, with the scopes of the token that registered it. */
export interface EventReceiver {
  ownerClient: string
  ownerSubject: string
  scopes: string | null
}

/**
 * Returns whether a webhook's owner may now read the row that an event is about; true for events without access rules.
 * Rejects if a rule throws.
 */
export type MayReceive = (receiver: EventReceiver, event: { type: string; facts: string | null }) => Promise<boolean>

/** Applies the access rules of resources to events about their rows. */
export interface EventAccess {
  /** Returns true if rules may limit who receives events of this type. */
  appliesTo: (type: string) => boolean
  /**
   * Returns a function that decides which receivers may receive the events of one batch. It evaluates a resource's
   * rules only once for each receiver.
   */
  judge: () => MayReceive
}

type Insert = (tx: Queryable, row: EventRow) => Promise<unknown>
type EventRow = ReturnType<typeof rowOf>

/**
 * Records an event and enqueues its fan-out in the transaction that caused it: the event is sent if and only if the
 * transaction commits. `insert` may be the result of `eventInserter`.
 */
export async function recordEvent(
  tx: Queryable,
  queue: Queue,
  event: NewEvent,
  insert: Insert = (tx, row) => tx.insertInto('events').values(row).execute(),
): Promise<void> {
  await insert(tx, rowOf(event))
  await queue.enqueue(tx, 'event.fan-out', { eventId: event.id }, { trace: event.trace })
}

/** Returns a function that inserts events with a statement that is compiled only once. */
export function eventInserter(db: Database): Insert {
  const event = { id: '', type: '', ownerClient: '', ownerSubject: '', body: {}, callbackUrl: '', createdAt: '' }
  const insert = db.prepare(db.read.insertInto('events').values(rowOf(event)))
  return (tx, row) => insert.in(tx, Object.values(row))
}

/**
 * Returns the row of an event. The order of its members is fixed, because `eventInserter` binds the values by position.
 */
const rowOf = (event: NewEvent) => ({
  ...{ id: event.id, type: event.type, ownerClient: event.ownerClient, ownerSubject: event.ownerSubject },
  ...{ audience: event.audience ?? null, exceptWebhook: event.exceptWebhook ?? null },
  ...{ body: JSON.stringify(event.body), facts: event.facts ? JSON.stringify(event.facts) : null },
  ...{ callbackUrl: event.callbackUrl, trace: event.trace ?? null, createdAt: event.createdAt },
})

/** Returns the noun of an event type, such as `report`. */
export const nounOf = (type: string): string => type.slice(0, type.indexOf('.'))

/** Returns the wildcard for all events with the same noun, such as `report.*`. */
export const familyOf = (type: string): string => `${nounOf(type)}.*`

/** Returns all `event` values that subscribe to this type. */
export const patternsOf = (type: string): string[] => [type, familyOf(type), '*']

/**
 * Returns an SQL expression that is true if any active webhook subscribes to this event type. Inside a larger
 * statement, it costs a few index lookups but no round trip.
 */
export const isSubscribed = (type: string): RawBuilder<boolean> =>
  sql<boolean>`(${sql.join(patternsOf(type).map(isNamed), sql` or `)})`

const isNamed = (pattern: string) => sql`exists (
  select 1 from webhooks where webhooks.event = ${sql.lit(pattern)} and webhooks.status = 'active')`
