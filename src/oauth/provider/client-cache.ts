import { timingSafeEqual } from 'node:crypto'
import type Provider from 'oidc-provider'
import type { Adapter, Client } from 'oidc-provider'
import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import { clientSecretContext } from '../clients/clients.ts'

/**
 * Caches the provider's client objects. The provider's own cache hashes all of a client's metadata on each request;
 * this cache reuses the object until the underlying record (`clientRecords`) is read again.
 */
export function cacheClients({ Client: clients }: Provider, { changes }: Pick<Database, 'changes'>): void {
  const { adapter } = clients as unknown as { adapter: Adapter }
  const find = clients.find.bind(clients)
  const known = new WeakMap<object, Client>()
  // Without change notifications, each request reads a new record, so caching would have no effect.
  if (changes === null) return
  clients.find = async (id) => {
    const record = await adapter.find(id)
    const cached = record && known.get(record)
    if (cached) return cached
    const found = await find(id)
    if (record && found) known.set(record, found)
    return found
  }
}

const maxSecrets = 1_000

/**
 * Compares the digest of a presented secret with the stored digest. Caches a correct secret until the stored digest
 * changes, so that later requests skip the hashing.
 */
export function cacheSecretChecks({ Client: clients }: Provider, sealer: Sealer): void {
  const proven = new Map<string, { storedDigest: string; secret: Buffer }>()
  clients.prototype.compareClientSecret = function (presented) {
    const { clientId, clientSecret: storedDigest = '' } = this
    const secret = Buffer.from(presented)
    const cached = proven.get(clientId)
    if (cached?.storedDigest === storedDigest && isSame(cached.secret, secret)) return true
    const digest = sealer.digest(presented, clientSecretContext(clientId))
    if (!isSame(Buffer.from(storedDigest), Buffer.from(digest))) return false
    if (proven.size >= maxSecrets) proven.clear()
    proven.set(clientId, { storedDigest, secret })
    return true
  }
}

const isSame = (one: Buffer, other: Buffer): boolean => one.length === other.length && timingSafeEqual(one, other)
