import { randomBytes } from 'node:crypto'
import { type AuditActor, type AuditEntry, auditRecorder } from '../../audit/chain.ts'
import { assertPrecondition } from '../../http/policies/assert-precondition.ts'
import type { Precondition } from '../../http/policies/conditional.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import { nextRevision } from '../../storage/rows/revision.ts'
import type { Client } from '../../storage/tables/tables.ts'
import type { Scopes } from '../tokens/scopes.ts'
import { fromRow, type RegisteredClient, toRow } from './client-rows.ts'
import { auditDetails, type ClientDeps, clientSecretContext, randomToken } from './clients.ts'
import { changedLabels, type LabelChanges } from './labels.ts'
import { type ClientSettings, validateClientSettings } from './validate.ts'

/** Everything needed to change stored clients; `actor` is recorded in the audit log. */
export interface ClientChange extends ClientDeps {
  db: Database
  sealer: Sealer
  actor: AuditActor
}

/** The settings to change; labels are merged with the client's current labels. */
export type ClientChanges = Partial<Omit<ClientSettings, 'labels'>> & { labels?: LabelChanges }

/**
 * Changes the given settings. Throws RESOURCE_NOT_FOUND, PRECONDITION_FAILED, or a VALIDATION_ERROR that lists each
 * invalid field. Existing tokens remain valid until they expire, but keep only the scopes that the client still has;
 * changed limits apply to them too.
 */
export async function updateClient(
  options: ClientChange,
  known: Scopes,
  id: string,
  { labels = {}, ...settings }: ClientChanges,
  precondition: Precondition = {},
): Promise<RegisteredClient> {
  return change(options.db.write, options, id, precondition, (row) => {
    const client = fromRow(row)
    const wanted: ClientSettings = { ...client, ...settings, labels: changedLabels(client.labels, labels) }
    validateClientSettings(wanted, row.secretHash === null, known)
    return { values: toRow(wanted), entry: { event: 'client.updated', details: auditDetails(wanted) } }
  })
}

/**
 * Gives a confidential client a new secret; the old secret stops working at once. Throws the same errors as
 * `updateClient`. Runs in a new transaction, or in the caller's if `write` is given.
 */
export async function rotateClientSecret(
  options: ClientChange,
  id: string,
  precondition: Precondition = {},
  write: Write = options.db.write,
): Promise<{ client: RegisteredClient; secret: string }> {
  const secret = randomToken(options.random ?? randomBytes, 32)
  const client = await change(write, options, id, precondition, (row) => {
    if (row.secretHash === null) {
      const errors = [{ field: 'id', message: 'names a public client, which has no secret' }]
      throw new Problem('VALIDATION_ERROR', 'A public client has no secret', { errors })
    }
    return {
      values: { secretHash: options.sealer.digest(secret, clientSecretContext(id)) },
      entry: { event: 'client.secret_rotated' },
    }
  })
  return { client, secret }
}

/**
 * Revokes a client permanently: the client gets no new tokens, and its existing tokens are rejected shortly afterwards.
 * Throws RESOURCE_NOT_FOUND or PRECONDITION_FAILED.
 */
export async function revokeClient(options: ClientChange, id: string, precondition: Precondition = {}): Promise<void> {
  const revokedAt = instant(options)
  await change(options.db.write, options, id, precondition, () => ({
    values: { revokedAt },
    entry: { event: 'client.revoked' },
  }))
}

const instant = ({ now = Date.now }: ClientDeps) => new Date(now()).toISOString()

/** Runs work in the caller's transaction, or in a new one. */
type Write = Database['write']

interface Changed {
  values: Partial<Client>
  entry: Pick<AuditEntry, 'event' | 'details'>
}

/** Locks, checks and updates the row, and adds the audit entry, all in one transaction. */
async function change(
  write: Write,
  options: ClientChange,
  id: string,
  precondition: Precondition,
  decide: (row: Client) => Changed,
): Promise<RegisteredClient> {
  const { sealer, actor, now = Date.now } = options
  const record = auditRecorder(sealer, now)
  const updatedAt = instant(options)
  return write(async (tx) => {
    const row = await locked(tx, id)
    if (row === undefined) throw new Problem('RESOURCE_NOT_FOUND', 'There is no such client')
    assertPrecondition(row, precondition)
    const { values, entry } = decide(row)
    const changing = tx.updateTable('clients').set({ ...values, ...nextRevision('clients', updatedAt) })
    const changed = await changing.where('id', '=', id).returningAll().executeTakeFirstOrThrow()
    await record(tx, { ...actor, ...entry, target: id })
    return fromRow(changed)
  })
}

/** Locks the row for the rest of the transaction, using a no-op update. */
async function locked(tx: Queryable, id: string): Promise<Client | undefined> {
  const touch = tx.updateTable('clients').set((row) => ({ revision: row.ref('revision') }))
  return touch.where('id', '=', id).where('revokedAt', 'is', null).returningAll().executeTakeFirst()
}
