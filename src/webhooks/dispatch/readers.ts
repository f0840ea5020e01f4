import { setImmediate } from 'node:timers/promises'
import type { EventAccess } from '../../queue/events.ts'
import type { Queue } from '../../queue/queue.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Due } from '../queue/claim.ts'
import type { Unsent } from './outcome.ts'
import type { Event, EventTarget } from './targets.ts'

/**
 * A job that fans out an event: to all of its targets, or, as a retry, only to the webhooks for which the access rules
 * failed.
 */
export interface FanOutJob {
  eventId: string
  webhooks?: readonly string[]
  /** How many times the access rules have failed for these webhooks. */
  failures?: number
}

export interface JudgingOptions {
  access: EventAccess
  queue: Pick<Queue, 'enqueue'>
  /** Receives each distinct error of the access rules, once per batch. */
  onError: (error: unknown) => void
}

const minuteMs = 60_000
/**
 * The delays before the access rules are evaluated again for a webhook after they failed. If the last retry fails as
 * well, the webhook gets no delivery.
 */
const retryDelaysMs = [1, 5, 30, 120, 480].map((minutes) => minutes * minuteMs)

/**
 * Restricts the targets of a batch to webhooks whose owners may read the event's resource. If the rules fail for one
 * webhook, the other webhooks still receive the event, and `retry` adds a job for the failed one.
 */
export function readersIn(
  { access, queue, onError }: JudgingOptions,
  jobs: readonly FanOutJob[],
  targets: (event: Event) => Promise<readonly EventTarget[]>,
) {
  const jobOf = new Map(jobs.map((job) => [job.eventId, job]))
  const mayReceive = access.judge()
  const failed: Required<FanOutJob>[] = []
  const reported = new Set<string>()
  const report = (error: unknown) => {
    if (reported.has(String(error))) return
    reported.add(String(error))
    onError(error)
  }
  const readers = async (event: Event): Promise<readonly EventTarget[]> => {
    const found = await targets(event)
    if (!access.appliesTo(event.type)) return found
    const { webhooks, failures = 0 } = jobOf.get(event.id) ?? {}
    // Evaluating the rules involves no I/O. Without a pause, nothing else would run during a batch.
    await setImmediate()
    const allowed: EventTarget[] = []
    const undecided: string[] = []
    for (const target of found) {
      const webhookId = String(target.webhookId)
      if (webhooks?.includes(webhookId) === false) continue
      try {
        if (await mayReceive(target, event)) allowed.push(target)
      } catch (error) {
        report(error)
        undecided.push(webhookId)
      }
    }
    if (undecided.length > 0) failed.push({ eventId: event.id, webhooks: undecided, failures: failures + 1 })
    return allowed
  }
  const retry = async (tx: Queryable) => {
    for (const job of failed) {
      const delayMs = retryDelaysMs[job.failures - 1]
      if (delayMs !== undefined) await queue.enqueue(tx, 'event.fan-out', job, { delayMs })
    }
  }
  return { readers, retry }
}

const stopped: Unsent = { cause: 'stopped', reason: 'The webhook was paused or disabled' }
const uncovered: Unsent = {
  cause: 'not covered',
  reason: 'The webhook or its owner was deleted, or the scopes of the webhook no longer cover the event',
}
export const unreadable: Unsent = {
  cause: 'not readable',
  reason: 'The owner of the webhook may not read the resource of the event',
}

/**
 * Returns null if a delivery may be sent, otherwise why not: the webhook was paused or disabled after the delivery was
 * made due, the webhook or its owner was deleted, or its scopes no longer cover the event. A test may be sent even
 * if the webhook was already paused or disabled.
 */
export function whyStopped({ webhookId, webhook, isTest, stops }: Due): Unsent | null {
  if (webhookId === null) return null
  if (webhook === null) return uncovered
  return stops < webhook.stops || (isTest !== 1 && webhook.status !== 'active') ? stopped : null
}

/**
 * Returns whether the owner of a delivery's webhook may still read the event's resource. This can change while a
 * delivery waits, or before it is sent again. Rejects if an access rule fails.
 */
export async function isEventReadable(
  { db, access }: { db: Pick<Database, 'read'>; access: EventAccess },
  { webhook, isTest, type, eventId }: Due,
): Promise<boolean> {
  if (webhook === null || isTest === 1 || !access.appliesTo(type)) return true
  const event = await db.read.selectFrom('events').select('facts').where('id', '=', eventId).executeTakeFirst()
  return event !== undefined && access.judge()(webhook, { type, facts: event.facts })
}
