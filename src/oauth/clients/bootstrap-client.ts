import { auditRecorder, theService } from '../../audit/chain.ts'
import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import { firstRevision, nextRevision } from '../../storage/rows/revision.ts'
import type { Client } from '../../storage/tables/tables.ts'
import type { Scopes } from '../tokens/scopes.ts'
import { toRow } from './client-rows.ts'
import { auditDetails, type ClientDeps, clientSecretContext } from './clients.ts'
import { validateClient, withDefaults } from './validate.ts'

/**
 * Ensures that the client specified in the settings exists as configured: confidential, with every scope and the
 * client_credentials grant. Call on each start. Throws VALIDATION_ERROR if the id or secret is invalid.
 */
export async function ensureBootstrapClient(
  db: Database,
  sealer: Sealer,
  known: Scopes,
  id: string,
  secret: string,
  { now = Date.now }: ClientDeps = {},
): Promise<void> {
  const grants = ['client_credentials']
  const settings = withDefaults({ name: 'Bootstrap client', scopes: Object.keys(known), grants })
  validateClient({ ...settings, id, secret }, known)
  // Leaves out the limits, so that values set by an administrator are kept.
  const { rate: _, quota: __, ...row } = toRow(settings)
  const values = { ...row, secretHash: sealer.digest(secret, clientSecretContext(id)), revokedAt: null }
  const at = new Date(now()).toISOString()
  const record = auditRecorder(sealer, now)
  await db.write(async (tx) => {
    const before = await tx.selectFrom('clients').selectAll().where('id', '=', id).executeTakeFirst()
    if (before && isAsSet(before, values)) return
    await tx
      .insertInto('clients')
      .values({ ...values, id, ...firstRevision(at) })
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ ...values, ...nextRevision('clients', at) }))
      .execute()
    const event = before ? 'client.updated' : 'client.created'
    await record(tx, { ...theService, event, target: id, details: auditDetails(settings) })
  })
}

const isAsSet = (row: Client, values: Partial<Client>): boolean =>
  Object.entries(values).every(([name, value]) => row[name as keyof Client] === value)
