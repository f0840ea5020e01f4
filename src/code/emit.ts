import { sql } from 'kysely'
import { Check } from 'typebox/value'
import { isSubscribed, recordEvent } from '../queue/events.ts'
import type { Queue } from '../queue/queue.ts'
import { rowFacts } from '../resources/access/row-facts.ts'
import type { WriteBy } from '../resources/writes/hooks.ts'
import type { Queryable } from '../storage/database.ts'
import { newOrderedId, type RandomBytes, type RowId } from '../storage/ids.ts'
import type { AnyEvent } from './event.ts'
import type { CollectionOf } from './rows/collections.ts'

interface EmitParts {
  queue: Queue
  random: RandomBytes
  now: () => number
  collectionOf: CollectionOf
}

/**
 * Checks an event's data at once, so that the stack trace of an error contains the author's line. Returns a function to
 * call at the end of the transaction. It records the event if there is a subscriber, with the row's values that access
 * rules compare.
 */
export function emitted(parts: EmitParts, event: AnyEvent, given: unknown[], { caller }: WriteBy) {
  const [row, data] = event.of ? (given as [{ id: RowId }, object]) : [undefined, given[0] as object]
  if (event.of && row?.id === undefined) throw new TypeError(`emit: the ${event.label} needs the row that it is about`)
  if (!Check(event.schema, data)) throw new TypeError(`emit: the data of the ${event.label} does not match its schema`)
  const body = structuredClone(data)
  return async (tx: Queryable): Promise<void> => {
    const query = sql<{ subscribed: boolean | number }>`select ${isSubscribed(event.type)} as subscribed`
    if (!(await query.execute(tx)).rows[0]?.subscribed) return
    const createdAt = new Date(parts.now()).toISOString()
    await recordEvent(tx, parts.queue, {
      ...{ id: newOrderedId('msg', parts.random, createdAt), type: event.type, audience: event.scope ?? 'any' },
      ...{ ownerClient: caller.clientId, ownerSubject: caller.subject, callbackUrl: null, trace: caller.trace },
      ...{ createdAt, body, facts: row && (await factsOf(parts, tx, event, row)) },
    })
  }
}

/** Returns the row's values that access rules compare; undefined if the collection has no access rules. */
async function factsOf({ collectionOf }: EmitParts, tx: Queryable, { of }: AnyEvent, row: { id: RowId }) {
  const { declaration, rows, related } = collectionOf({ declaration: of }).served
  if (declaration.access === undefined) return undefined
  const current = await rows.readIn(tx, row.id)
  return rowFacts(declaration, related?.all ?? [])(tx, { ...(current ?? row) })
}
