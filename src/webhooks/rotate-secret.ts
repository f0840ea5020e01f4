import { type AuditActor, auditRecorder } from '../audit/chain.ts'
import type { Caller } from '../http/policies/authenticate.ts'
import type { Precondition } from '../http/policies/conditional.ts'
import { Problem } from '../http/problems/problem.ts'
import type { Queryable } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import { nextRevision } from '../storage/rows/revision.ts'
import type { Webhook } from '../storage/tables/tables.ts'
import { newSecret } from './dispatch/sign.ts'
import { hold, type Store } from './registrations.ts'
import { accountAad, ensureSecret, type Owner, type StoredSecret, secretAad } from './secrets.ts'

const overlapMs = 24 * 3_600_000

interface Rotation {
  /** For a leaked secret: if true, the service stops signing with the old secret at once, not after 24 hours. */
  immediate: boolean
  actor: AuditActor
}

/**
 * Returns a new secret, and the columns that store it along with the secret that it replaces. Throws
 * SECRET_ROTATION_IN_PROGRESS during the 24-hour grace period of an earlier rotation, unless `immediate` is set, which
 * ends the use of both older secrets.
 */
function successor({ sealer, now, random }: Store, before: StoredSecret, aad: string, immediate: boolean) {
  const { secretSealed, previousSecretExpiresAt: end } = before
  if (!immediate && end !== null && Date.parse(end) > now()) {
    const detail = `The previous secret is still valid until ${end}: wait until then, or set \`immediate\` to end both`
    throw new Problem('SECRET_ROTATION_IN_PROGRESS', detail)
  }
  const secret = newSecret(random)
  const previous = { previousSecretSealed: secretSealed, previousSecretExpiresAt: iso(now() + overlapMs) }
  const none = { previousSecretSealed: null, previousSecretExpiresAt: null }
  return { secret, columns: { secretSealed: sealer.seal(secret, aad), ...(immediate ? none : previous) } }
}

/** Replaces a webhook's secret. Throws the same errors as `hold`, or SECRET_ROTATION_IN_PROGRESS. */
export async function rotateSecret(
  tx: Queryable,
  store: Store,
  caller: Caller,
  { id, precondition, immediate, actor }: Rotation & { id: string; precondition: Precondition },
): Promise<{ webhook: Webhook; secret: string }> {
  const before = await hold(tx, caller, id, precondition)
  const { secret, columns } = successor(store, before, secretAad(id), immediate)
  const changing = tx.updateTable('webhooks').set({ ...columns, ...nextRevision('webhooks', iso(store.now())) })
  const webhook = await changing.where('id', '=', id).returningAll().executeTakeFirstOrThrow()
  const entry = { ...actor, event: 'webhook.secret_rotated', target: id, details: { immediate } } as const
  await auditRecorder(store.sealer, store.now)(tx, entry)
  return { webhook, secret }
}

/** Replaces an account's secret for one-off callback URLs. Throws SECRET_ROTATION_IN_PROGRESS like `rotateSecret`. */
export async function rotateAccountSecret(
  tx: Queryable,
  store: Store,
  owner: Owner,
  { immediate, actor }: Rotation,
): Promise<{ secret: string; previousSecretExpiresAt?: string }> {
  const { sealer, now, random } = store
  await ensureSecret(tx, sealer, owner, now, random)
  const row = tx
    .updateTable('accountSecrets')
    .where('ownerClient', '=', owner.ownerClient)
    .where('ownerSubject', '=', owner.ownerSubject)
  // Locks the row, so that the later of two concurrent rotations sees the secret that the earlier one created.
  const touch = row.set((held) => ({ createdAt: held.ref('createdAt') })).returningAll()
  const before = await touch.executeTakeFirstOrThrow()
  const { secret, columns } = successor(store, before, accountAad(owner), immediate)
  await row.set(columns).execute()
  const entry = { ...actor, event: 'webhook.secret_rotated', target: 'account', details: { immediate } } as const
  await auditRecorder(sealer, now)(tx, entry)
  const { previousSecretExpiresAt: end } = columns
  return { secret, ...(end !== null && { previousSecretExpiresAt: end }) }
}
