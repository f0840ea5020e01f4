import { type AuditActor, auditRecorder } from '../audit/chain.ts'
import { applyMergePatch } from '../http/merge-patch.ts'
import type { Caller } from '../http/policies/authenticate.ts'
import type { Precondition } from '../http/policies/conditional.ts'
import { Problem } from '../http/problems/problem.ts'
import type { EventAccess } from '../queue/events.ts'
import type { Queue } from '../queue/queue.ts'
import type { Queryable } from '../storage/database.ts'
import { nextRevision } from '../storage/rows/revision.ts'
import type { Webhook } from '../storage/tables/tables.ts'
import { settle } from './deliveries/settle.ts'
import { typesOf } from './event-types.ts'
import { resetEndpointQueues } from './queue/endpoint-queue.ts'
import { headersOf, hold, hostOf, ownerOf, refuseDuplicate, type Store } from './registrations.ts'
import { checkHeaders, checkReadAccess, missingScope, type RegistrationPatch, type Rules } from './rules.ts'
import { headersAad } from './secrets.ts'

/** The event types, and the access rules that decide who may receive their events. */
type Receiving = Pick<Rules, 'events'> & { access: EventAccess }

/** The health values after a webhook is enabled again or gets a new address. */
const resetHealth = { statusReason: null, failingSince: null, failingTold: null }

/**
 * Applies a validated merge patch (RFC 7396) to a webhook and returns the result. Throws the same errors as `hold`,
 * DUPLICATE_RESOURCE, or VALIDATION_ERROR if the merged headers are invalid. For a new event or address, throws
 * ACCESS_DENIED or PERMISSION_DENIED if the request's token may not read the events.
 */
export function changeWebhook(
  options: Store & Receiving & { queue: Queue },
  caller: Caller,
  id: string,
  patch: RegistrationPatch,
  precondition: Precondition,
  actor: AuditActor,
): Promise<Webhook> {
  const { db, sealer, now } = options
  const unit = async (tx: Queryable) => {
    const before = await hold(tx, caller, id, precondition)
    const updatedAt = new Date(now()).toISOString()
    const values = valuesOf(options, before, patch, caller)
    const changing = tx.updateTable('webhooks').set({ ...values, ...nextRevision('webhooks', updatedAt) })
    const after = await changing.where('id', '=', id).returningAll().executeTakeFirstOrThrow()
    if (after.stops !== before.stops || after.callbackUrl !== before.callbackUrl) {
      await settle(tx, options, id, updatedAt)
    }
    if (isFresh(before, after)) await resetEndpointQueues(tx, db, id)
    const details = { changed: Object.keys(patch), ...('callbackUrl' in patch && { host: hostOf(after.callbackUrl) }) }
    await auditRecorder(sealer, now)(tx, { ...actor, event: 'webhook.updated', target: id, details })
    return after
  }
  return db.write(unit).catch((error) => refuseDuplicate(db, error))
}

/** Returns whether to reset the endpoint's health, because the webhook was enabled again or has a new address. */
const isFresh = (before: Webhook, after: Webhook): boolean =>
  after.callbackUrl !== before.callbackUrl || (after.status === 'active' && before.status !== 'active')

/** Returns the columns that a patch changes. */
function valuesOf(
  { sealer, events, access }: Store & Receiving,
  before: Webhook,
  patch: RegistrationPatch,
  caller: Caller,
): Partial<Webhook> {
  const { event, callbackUrl, payloadStyle, version, status } = patch
  const isOther = callbackUrl !== undefined && callbackUrl !== before.callbackUrl
  const values: Partial<Webhook> = {
    ...(event !== undefined && { event }),
    ...(callbackUrl !== undefined && { callbackUrl }),
    ...('description' in patch && { description: patch.description ?? null }),
    ...('headers' in patch && { headers: headersAfter(sealer, before, patch.headers) }),
    ...(payloadStyle !== undefined && { payloadStyle: payloadStyle === 'envelope' ? 'envelope' : 'plain' }),
    ...(version !== undefined && { version }),
    ...(status !== undefined && { status: status === 'paused' ? 'paused' : 'active' }),
    ...(status === 'paused' && { stops: before.stops + 1 }),
  }
  if (isFresh(before, { ...before, ...values })) Object.assign(values, resetHealth)
  if (!isOther && (event === undefined || event === before.event)) return values
  return { ...values, scopes: scopesAfter(before, event ?? before.event, caller, { events, access }) }
}

/**
 * Returns a webhook's scopes after a change of its event or address: the scopes of the token that made the change, as
 * for a new registration. An administrator who changes another owner's webhook cannot add scopes to it, and cannot
 * redirect events of resources with access rules. Throws ACCESS_DENIED or PERMISSION_DENIED.
 */
function scopesAfter(before: Webhook, event: string, caller: Caller, { events, access }: Receiving): string {
  const { ownerClient, ownerSubject } = ownerOf(caller)
  checkReadAccess(event, caller, events)
  if (ownerClient === before.ownerClient && ownerSubject === before.ownerSubject) return [...caller.scopes].join(' ')
  if (typesOf(events, event).some(access.appliesTo)) {
    const reason = 'this webhook receives events of resources with access rules'
    throw new Problem('PERMISSION_DENIED', `Only the owner can change the event or the address: ${reason}`)
  }
  const remaining = new Set((before.scopes ?? '').split(' ').filter((scope) => caller.scopes.has(scope)))
  if (missingScope(event, remaining, events) !== undefined) {
    throw new Problem('PERMISSION_DENIED', 'The owner of this webhook does not have the scope that the event requires')
  }
  return [...remaining].join(' ')
}

function headersAfter(sealer: Store['sealer'], before: Webhook, patch: RegistrationPatch['headers']): string | null {
  const merged = applyMergePatch(headersOf(sealer, before), patch) as Record<string, string> | null
  if (merged === null || Object.keys(merged).length === 0) return null
  checkHeaders(merged)
  return sealer.seal(JSON.stringify(merged), headersAad(before.id))
}
