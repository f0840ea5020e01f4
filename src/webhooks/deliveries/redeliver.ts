import { type AuditActor, auditRecorder } from '../../audit/chain.ts'
import type { Caller } from '../../http/policies/authenticate.ts'
import type { Precondition } from '../../http/policies/conditional.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Queue } from '../../queue/queue.ts'
import type { Queryable } from '../../storage/database.ts'
import { coveredBy, effectiveScopes } from '../dispatch/subscribers.ts'
import { hold, refuseInactive, type Store } from '../registrations.ts'
import { makeDue } from './enqueue.ts'
import { findDelivery } from './list.ts'

interface Sending extends Store {
  queue: Queue
}

/**
 * Sends one delivery again, with the same id and bytes, in new attempts. Throws RESOURCE_NOT_FOUND, WEBHOOK_NOT_ACTIVE,
 * PRECONDITION_FAILED if the webhook does not meet the precondition, or PERMISSION_DENIED if the webhook's scopes no
 * longer cover the event.
 */
export async function redeliver(
  tx: Queryable,
  { sealer, queue, now }: Sending,
  caller: Caller,
  { id, deliveryId, precondition }: { id: string; deliveryId: string; precondition: Precondition },
  actor: AuditActor,
) {
  const webhook = await hold(tx, caller, id, precondition)
  const { test } = await findDelivery(tx, id, deliveryId)
  if (!test) refuseInactive(webhook)
  const one = tx.selectFrom('deliveries').select('id').where('id', '=', deliveryId)
  const covered = await one.where(coveredBy(await effectiveScopes(tx, webhook))).executeTakeFirst()
  if (covered === undefined) {
    throw new Problem('PERMISSION_DENIED', 'The scopes of the webhook no longer cover this event')
  }
  await makeDue(tx, webhook, [deliveryId], new Date(now()).toISOString())
  await queue.enqueue(tx, 'delivery.send', { deliveryId })
  const details = { deliveryId }
  await auditRecorder(sealer, now)(tx, { ...actor, event: 'webhook.replayed', target: id, details })
  return findDelivery(tx, id, deliveryId)
}
