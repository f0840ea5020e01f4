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
   * Who may receive the event besides the owner of its subject: any webhook (`any`), webhooks of clients that have this
   * scope, or no one else (null).
   */
  audience: string | null
}

/** An event to record and deliver to subscribers. */
export interface NewEvent {
  /** `msg_…`; becomes `webhook-id` on every delivery. */
  id: string
  /** `noun.past`, such as `report.completed`. */
  type: string
  /** The client that caused the event or that owns its subject. */
  ownerClient: string
  ownerSubject: string
  /**
   * Who receives the event: all webhooks (`any`), webhooks of clients that have this scope, or only the owner's webhooks
   * (the default).
   */
  audience?: string | null
  /** The webhook that the event is about, which does not receive it. */
  exceptWebhook?: string
  /** Stored once as JSON text; the same bytes are signed and sent on each attempt. */
  body: object
  /** The row's facts that access rules compare, if the resource has access rules; never sent. */
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
 * Rejects if a rule fails.
 */
export type MayReceive = (receiver: EventReceiver, event: { type: string; facts: string | null }) => Promise<boolean>

/** Applies the access rules of resources to their events. */
export interface EventAccess {
  /** Returns true if rules may limit who receives events of this type. */
  appliesTo: (type: string) => boolean
  /** Returns a function for one batch of events. It evaluates a resource's rules only once for each receiver. */
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

/** Returns the function that inserts events by a statement that is compiled once. */
export function eventInserter(db: Database): Insert {
  const event = { id: '', type: '', ownerClient: '', ownerSubject: '', body: {}, callbackUrl: '', createdAt: '' }
  const insert = db.prepare(db.read.insertInto('events').values(rowOf(event)))
  return (tx, row) => insert.in(tx, Object.values(row))
}

/** Returns the row of an event; its members always have the same order. */
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
 * Returns an SQL expression that tells whether any active webhook subscribes to this event type. Inside a larger
 * statement, it costs an index lookup but no round trip.
 */
export const isSubscribed = (type: string): RawBuilder<boolean> =>
  sql<boolean>`(${sql.join(patternsOf(type).map(isNamed), sql` or `)})`

const isNamed = (pattern: string) => sql`exists (
  select 1 from webhooks where webhooks.event = ${sql.lit(pattern)} and webhooks.status = 'active')`
