import type { Database, Queryable } from '../db/open.ts'
import type { Queue } from './queue.ts'

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
export const patternsOf = (type: string): [string, string, string] => [type, familyOf(type), '*']

/** Tells, inside a transaction, whether any active registration names one of the three patterns of an event. */
export type IsHeard = (tx: Queryable, patterns: readonly [string, string, string]) => Promise<boolean>

/** One look into an index, so that a change nobody listens to writes nothing but itself. */
export function listeners(db: Database): IsHeard {
  const named = db.read.selectFrom('webhooks').select('id').where('event', 'in', ['', '', ''])
  const first = db.prepare(named.where('status', '=', 'active').limit(1))
  return async (tx, patterns) => (await first.in(tx, [...patterns, 'active', 1])).rows.length > 0
}
