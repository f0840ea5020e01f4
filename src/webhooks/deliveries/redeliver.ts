import { type AuditActor, auditRecorder } from '../../audit/chain.ts'
import type { Caller } from '../../http/policies/authenticate.ts'
import type { Precondition } from '../../http/policies/conditional.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { EventAccess } from '../../queue/events.ts'
import type { Queue } from '../../queue/queue.ts'
import type { Queryable } from '../../storage/database.ts'
import { coveredBy, effectiveScopes } from '../dispatch/subscribers.ts'
import { hold, refuseInactive, type Store } from '../registrations.ts'
import { makeDue } from './enqueue.ts'
import { findDelivery, shownTo } from './list.ts'

interface Sending extends Store {
  queue: Queue
  access: EventAccess
}

/**
 * Sends one delivery again, with the same id and body. Throws RESOURCE_NOT_FOUND, WEBHOOK_NOT_ACTIVE or
 * PRECONDITION_FAILED. Throws PERMISSION_DENIED if the webhook's scopes no longer cover the event, or if its owner
 * may no longer read the event's resource.
 */
export async function redeliver(
  tx: Queryable,
  { sealer, queue, access, now }: Sending,
  caller: Caller,
  { id, deliveryId, precondition }: { id: string; deliveryId: string; precondition: Precondition },
  actor: AuditActor,
) {
  const webhook = await hold(tx, caller, id, precondition)
  const { test, event: type, eventId } = await findDelivery(tx, id, deliveryId)
  if (!test) refuseInactive(webhook)
  const one = tx.selectFrom('deliveries').select('id').where('id', '=', deliveryId)
  const covered = await one.where(coveredBy(await effectiveScopes(tx, webhook))).executeTakeFirst()
  if (covered === undefined) {
    throw new Problem('PERMISSION_DENIED', 'The scopes of the webhook no longer cover this event')
  }
  if (!test && access.appliesTo(type)) {
    const event = await tx.selectFrom('events').select('facts').where('id', '=', eventId).executeTakeFirst()
    if (event === undefined || !(await access.judge()(webhook, { type, facts: event.facts }))) {
      throw new Problem('PERMISSION_DENIED', 'The owner of the webhook may not read the resource of this event')
    }
  }
  await makeDue(tx, webhook, [deliveryId], new Date(now()).toISOString())
  await queue.enqueue(tx, 'delivery.send', { deliveryId }, { trace: caller.trace })
  const details = { deliveryId }
  await auditRecorder(sealer, now)(tx, { ...actor, event: 'webhook.replayed', target: id, details })
  return shownTo(caller, webhook)(await findDelivery(tx, id, deliveryId))
}
