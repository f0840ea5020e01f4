import { sql } from 'kysely'
import type { WorkTogether } from '../../queue/queue.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import { newOrderedId, type RandomBytes } from '../../storage/ids.ts'
import type { WaitingBound } from '../deliveries/waiting-bound.ts'
import { bodiesOf, type EventShapes, storedShapes } from '../event-shapes.ts'
import { endpointQueueId, scheduleEndpointQueues, shareOf } from '../queue/endpoint-queue.ts'
import { type FanOutJob, type JudgingOptions, readersIn } from './readers.ts'
import { type Event, type EventTarget, targetsIn } from './targets.ts'

export interface FanOutOptions extends JudgingOptions {
  db: Database
  now: () => number
  random: RandomBytes
  /** Drops an owner's oldest waiting deliveries if there are too many. */
  bound?: WaitingBound
  /** Converts events to the field names of an API version; by default, the stored names are sent. */
  shapes?: EventShapes
  /** Called after deliveries are added. */
  onAdded?: () => void
}

/**
 * Maximum number of deliveries added in one transaction. Larger additions are split into chunks, because other writers
 * wait for the transaction on SQLite.
 */
const maxAdded = 800
const chunkSize = 400
/** Maximum number of deliveries held in memory, not counting those of the last event. */
const maxGathered = 10_000

/**
 * Handles `event.fan-out` jobs in batches. Adds one delivery per subscribed webhook of the event's owner or audience,
 * except webhooks whose owners may not read the event's resource. Adds one for the request's callback URL, unless a
 * webhook with the same URL receives the plain body. If the job runs again, it adds no delivery twice.
 */
export const fanOut = (options: FanOutOptions): WorkTogether => {
  const { db, now, random, bound, shapes = storedShapes, onAdded } = options
  return async ({ payloads, finish }) => {
    const jobs = payloads as FanOutJob[]
    const instant = new Date(now()).toISOString()
    const add = async (additions: readonly Addition[], before?: (tx: Queryable) => Promise<void>) => {
      await db.write(async (tx) => {
        await before?.(tx)
        await addDeliveries(tx, db, additions, instant)
      })
      onAdded?.()
      await bound?.(additions.map(({ owner }) => owner))
    }
    const events = await eventsOf(db.read, db, jobs)
    const { readers, retry } = readersIn(options, jobs, targetsIn(db.read, db, events))
    const registered: Addition[] = []
    // These deliveries have no webhook id. A unique constraint ignores nulls, so only the transaction that finishes the
    // jobs may add them; otherwise, a repeated job would add them twice.
    const addressed: Addition[] = []
    for (const event of events) {
      const bodyIn = bodiesOf(event, shapes)
      for (const target of await readers(event)) {
        const additions = target.webhookId === null ? addressed : registered
        const shaped = { ...event, body: bodyIn(target.version) }
        additions.push(additionOf(shaped, target, newOrderedId('dlv', random, instant)))
      }
      if (registered.length >= maxGathered) await addChunks(registered, add)
    }
    await addChunks(registered, add)
    await add([...registered, ...addressed], async (tx) => {
      await finish(tx)
      await retry(tx)
    })
  }
}

/**
 * Adds deliveries in chunks until the rest fit into one transaction. Sorts them by endpoint queue, so that each
 * transaction updates few queues.
 */
async function addChunks(additions: Addition[], add: (some: readonly Addition[]) => Promise<void>): Promise<void> {
  if (additions.length <= maxAdded) return
  additions.sort((one, other) => (one.lane < other.lane ? -1 : 1))
  while (additions.length > chunkSize) await add(additions.splice(0, chunkSize))
}

async function eventsOf(tx: Queryable, { engine }: Database, jobs: readonly FanOutJob[]): Promise<Event[]> {
  const ids = engine.jsonRows(JSON.stringify(jobs.map(({ eventId }) => [eventId])))
  const { rows } = await sql<Event>`
    select id, type, owner_client as "ownerClient", owner_subject as "ownerSubject", audience, body, facts,
      callback_url as "callbackUrl", except_webhook as "exceptWebhook", created_at as "createdAt"
    from events where id in (select value ->> 0 from ${ids})`.execute(tx.withoutPlugins())
  return rows
}

/** A delivery to add. */
interface Addition {
  owner: string
  lane: string
  row: (string | number)[]
}

const additionOf = (event: Event, target: EventTarget, id: string): Addition => {
  const { webhookId, url, payloadStyle, ownerClient, ownerSubject, stops } = target
  const lane = endpointQueueId(target, event.ownerClient)
  const call = [id, event.id, webhookId as string, url, bodyFor(event, payloadStyle), lane]
  return {
    ...{ owner: shareOf(webhookId, target), lane },
    row: [...call, ownerClient, ownerSubject, event.type, stops],
  }
}

/**
 * Adds deliveries that are due immediately; skips deliveries that already exist. Schedules the queues of all of them:
 * on SQLite, identifying the added ones with RETURNING would take a quarter of the statement's time.
 */
async function addDeliveries(
  tx: Queryable,
  db: Database,
  additions: readonly Addition[],
  instant: string,
): Promise<void> {
  if (additions.length === 0) return
  const rows = JSON.stringify(additions.map(({ row }) => row))
  await sql`
    insert into deliveries (id, event_id, webhook_id, url, body, lane, owner_client, owner_subject, event_type,
      stops, status, attempts, next_attempt_at, created_at)
    select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8,
      cast(value ->> 9 as integer), 'pending', 0, ${instant}, ${instant}
    from ${db.engine.jsonRows(rows)} where true
    on conflict do nothing`.execute(tx.withoutPlugins())
  await scheduleEndpointQueues(tx, db, new Map(additions.map(({ lane }) => [lane, instant])))
}

/**
 * Returns the request body: the plain body, or the same bytes wrapped in the payload structure recommended by Standard
 * Webhooks.
 */
export const bodyFor = (
  { type, createdAt, body }: Pick<Event, 'type' | 'createdAt' | 'body'>,
  style: EventTarget['payloadStyle'],
): string =>
  style === 'plain' ? body : `{"type":${JSON.stringify(type)},"timestamp":${JSON.stringify(createdAt)},"data":${body}}`
