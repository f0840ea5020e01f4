import { type RawBuilder, sql } from 'kysely'
import type { Queryable } from '../storage/database.ts'
import type { Queue } from './queue.ts'

/** A kind of event that registrations can name. */
export interface EventKind {
  description: string
  /** A body as `payloadStyle: plain` sends it. */
  example: object
  /** The JSON Schema of that body. */
  schema: object
  /** Who may hear of it besides the owner of what it is about: `any` registration, those with this scope, or nobody. */
  audience: string | null
}

/** Something that happened, as subscribers are told of it. */
export interface NewEvent {
  /** `msg_…`; becomes `webhook-id` on every delivery. */
  id: string
  /** `noun.past`, such as `report.completed`. */
  type: string
  /** Who caused it. */
  ownerClient: string
  ownerSubject: string
  /** Who hears of it: every registration (`any`), those whose client has this scope, or the owner's own only (the default). */
  audience?: string | null
  /** A registration that is not told, because the event is about itself. */
  exceptWebhook?: string
  /** Its JSON text is stored once, and the same bytes are signed and sent on each try. */
  body: object
  /** An address that came with the request that caused the event. */
  callbackUrl: string | null
  createdAt: string
}

/** Records an event and its fan-out in the transaction that caused it: it is told if and only if that commits. */
export async function recordEvent(tx: Queryable, queue: Queue, event: NewEvent): Promise<void> {
  await tx
    .insertInto('events')
    .values({ ...event, body: JSON.stringify(event.body) })
    .execute()
  await queue.enqueue(tx, 'event.fan-out', { eventId: event.id })
}

/** All events of the noun that a type starts with. */
export const familyOf = (type: string): string => `${type.slice(0, type.indexOf('.'))}.*`

/** Every `event` under which registrations hear of an event of this type. */
export const patternsOf = (type: string): string[] => [type, familyOf(type), '*']

/**
 * An expression for a statement that changes something: whether any active registration hears of an event of this type.
 * As a part of that statement it costs a look into an index, and no way to the database of its own.
 */
export const isSubscribed = (type: string): RawBuilder<boolean> =>
  sql<boolean>`(${sql.join(patternsOf(type).map(isNamed), sql` or `)})`

const isNamed = (pattern: string) => sql`exists (
  select 1 from webhooks where webhooks.event = ${sql.lit(pattern)} and webhooks.status = 'active')`
