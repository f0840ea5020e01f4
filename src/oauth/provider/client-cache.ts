import { timingSafeEqual } from 'node:crypto'
import type Provider from 'oidc-provider'
import type { Adapter, Client } from 'oidc-provider'
import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import { clientSecretPlace } from '../clients/clients.ts'

/**
 * Caches the provider's client objects. The provider recognizes a client by a digest of its whole metadata, computed on each
 * request; this cache instead reuses the client as long as its record (`clientRecords`) has not been read again.
 */
export function cacheClients({ Client: clients }: Provider, { generation }: Pick<Database, 'generation'>): void {
  const { adapter } = clients as unknown as { adapter: Adapter }
  const find = clients.find.bind(clients)
  const known = new WeakMap<object, Client>()
  clients.find = async (id) => {
    // Without a generation each record is read again.
    if (generation() === null) return find(id)
    const record = await adapter.find(id)
    const before = record && known.get(record)
    if (before) return before
    const found = await find(id)
    if (record && found) known.set(record, found)
    return found
  }
}

const secretsKept = 1_000

/**
 * A client's secret is stored as a digest, so the one presented is digested before both are compared. A correct secret is
 * cached while the digest stays the same, and later only compared.
 */
export function cacheSecretChecks({ Client: clients }: Provider, sealer: Sealer): void {
  const proven = new Map<string, { kept: string; secret: Buffer }>()
  clients.prototype.compareClientSecret = function (presented) {
    const { clientId, clientSecret: kept = '' } = this
    const secret = Buffer.from(presented)
    const before = proven.get(clientId)
    if (before?.kept === kept && isSame(before.secret, secret)) return true
    const digest = sealer.digest(presented, clientSecretPlace(clientId))
    if (!isSame(Buffer.from(kept), Buffer.from(digest))) return false
    if (proven.size >= secretsKept) proven.clear()
    proven.set(clientId, { kept, secret })
    return true
  }
}

const isSame = (one: Buffer, other: Buffer): boolean => one.length === other.length && timingSafeEqual(one, other)
