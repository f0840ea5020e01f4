import type { Queryable } from '../db/open.ts'
import type { Queue } from './queue.ts'

/** Something that happened, as subscribers are told of it. */
export interface NewEvent {
  /** `msg_…`; becomes `webhook-id` on every delivery. */
  id: string
  /** `noun.past`, such as `report.completed`. */
  type: string
  /** Whose event it is: only this owner's registrations hear of it. */
  ownerClient: string
  ownerSubject: string
  /** The contract's body; its JSON text is stored once and the same bytes are signed and sent on each try. */
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
