import type { Queryable } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import type { AuditRow } from '../storage/tables/administration.ts'

/** An audit entry. It never contains a secret or a request body; `details` contains names, ids and counts. */
export interface AuditEntry {
  event: AuditEvent
  /** The client whose token or secret was used. */
  clientId?: string | null
  subject?: string | null
  /** The id of the changed object, or the method and route of a rejected request. */
  target?: string | null
  address?: string | null
  requestId?: string | null
  details?: Readonly<Record<string, string | number | boolean | readonly string[]>>
}

/** Who caused an event, and with which request. */
export type AuditActor = Pick<AuditEntry, 'clientId' | 'subject' | 'address' | 'requestId'>

/** The operator at the command line, who needs no token. */
export const operator: AuditActor = { subject: 'command line' }

/** The service itself, acting on a schedule or because of a setting. */
export const theService: AuditActor = { subject: 'service' }

/** Returns the audit entry for a password change, by the user or by someone else. */
export const passwordChanged = (userId: string, actor: AuditActor) =>
  ({ ...actor, event: 'password.changed', target: userId }) as const

/**
 * Returns the audit entry for an administrator's change to the fields that the service adds to users. The entry
 * contains the names of the changed fields, but no values except the role.
 */
export const userUpdated = (id: number, fields: readonly string[], { role }: Readonly<Record<string, unknown>>) =>
  ({
    event: 'user.updated',
    target: String(id),
    details: { fields, ...(fields.includes('role') && typeof role === 'string' && { role }) },
  }) as const

/** All event types. */
export const auditEvents = [
  'login.succeeded',
  'login.failed',
  'login.blocked',
  'password.changed',
  'invitation.created',
  'user.updated',
  'account.role_changed',
  'account.locked',
  'account.unlocked',
  'session.ended',
  'consent.granted',
  'consent.denied',
  'consent.revoked',
  'token.granted',
  'token.refused',
  'token.revoked',
  'grant.revoked',
  'client.created',
  'client.updated',
  'client.secret_rotated',
  'client.revoked',
  'key.created',
  'key.updated',
  'key.revoked',
  'signing_key.published',
  'signing_key.retired',
  'master_key.rotated',
  'webhook.created',
  'webhook.updated',
  'webhook.secret_rotated',
  'webhook.disabled',
  'webhook.deleted',
  'webhook.replayed',
  'access.denied',
  'credential.plaintext',
  'audit.overflow',
  'audit.archived',
  'backup.requested',
  'backup.downloaded',
  'job.retried',
  'job.cancelled',
] as const

export type AuditEvent = (typeof auditEvents)[number]

export interface TimedEntry extends AuditEntry {
  /** The time of the entry, as fixed-width ISO text in UTC. */
  at: string
}

/**
 * Adds an entry in the transaction that the entry describes. Call this last, because it locks the log until the
 * transaction ends.
 */
export type RecordAudit = (tx: Queryable, entry: AuditEntry) => Promise<void>

type Digest = Pick<Sealer, 'digest'>

/** Returns the representation of an entry, without its null members. */
export function auditView({ details, ...row }: AuditRow): Record<string, unknown> {
  const entry = { ...row, details: details && JSON.parse(details) }
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== null))
}

/** Creates the recorder; `now` returns the time of an entry in epoch ms. */
export function auditRecorder(sealer: Digest, now: () => number): RecordAudit {
  return (tx, entry) => appendAudit(tx, sealer, [{ ...entry, at: new Date(now()).toISOString() }])
}

/**
 * Appends entries in order. The row lock on the head ensures that transactions number and chain their entries one at a
 * time.
 */
export async function appendAudit(tx: Queryable, sealer: Digest, entries: readonly TimedEntry[]): Promise<void> {
  if (entries.length === 0) return
  const advance = tx
    .updateTable('auditHead')
    .set((head) => ({ sequence: head('sequence', '+', entries.length) }))
    .where('id', '=', 1)
    .returning(['sequence', 'hash'])
  const head = await advance.executeTakeFirstOrThrow()
  let { hash } = head
  const first = head.sequence - entries.length + 1
  const rows = entries.map((entry, at) => {
    const row = rowOf(entry, first + at)
    hash = chainHash(sealer, row, hash)
    return { ...row, hash }
  })
  await tx.insertInto('auditEntries').values(rows).execute()
  await tx.updateTable('auditHead').set({ hash }).where('id', '=', 1).execute()
}

type Unchained = Omit<AuditRow, 'hash'>

const rowOf = (entry: TimedEntry, sequence: number): Unchained => ({
  sequence,
  at: entry.at,
  event: entry.event,
  clientId: entry.clientId ?? null,
  subject: entry.subject ?? null,
  target: entry.target ?? null,
  address: entry.address ?? null,
  requestId: entry.requestId ?? null,
  details: entry.details === undefined ? null : JSON.stringify(entry.details),
})

/**
 * Computes an entry's hash; `previous` is the hash of the preceding entry. Hashes are keyed, with a key that the master key
 * encrypts, so that write access to the database alone is not enough to forge a chain.
 */
export function chainHash(sealer: Digest, row: Unchained, previous: string): string {
  const { sequence, at, event, clientId, subject, target, address, requestId, details } = row
  const content = [sequence, at, event, clientId, subject, target, address, requestId, details, previous]
  return sealer.digest(JSON.stringify(content), 'audit')
}
