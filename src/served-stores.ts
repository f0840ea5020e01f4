import type { Config } from './config/config.ts'
import { databaseUrlOf } from './config/storage.ts'
import type { Definition } from './definition/service.ts'
import { storedDefinition } from './definition/stored.ts'
import { freeJobs } from './queue/embedded.ts'
import { watchKeys } from './storage/data-keys/open.ts'
import type { Database, OnCommit } from './storage/database.ts'
import { refuseDamage } from './storage/sqlite/damage.ts'
import { lockSqlite } from './storage/sqlite/lock.ts'
import { abandonUploads } from './storage/stored-files.ts'
import { dataFolder, openStoresIn, type Sharing, type StoreNotices, type Stores } from './stores.ts'
import { freeDeliveries } from './webhooks/queue/release.ts'

type Notices = StoreNotices & { now: () => number; onError: (error: unknown) => void; onCommit: OnCommit }

/**
 * Opens a thread's stores. Requires that the main thread has already opened the node's stores. If the function rejects,
 * nothing is left open.
 */
export async function openThreadStores(config: Config, declared: Definition, sharing: Sharing, notices: Notices) {
  const stores = await openStoresIn(config, dataFolder(config), sharing, notices)
  return watched(stores, declared, notices, {})
}

/**
 * Opens the stores of a node, and locks the database until `close`: a SQLite file exclusively, PostgreSQL with a lock
 * that all nodes share. Throws `DatabaseInUse` if the lock is not available, and `DatabaseDamaged` if the SQLite file
 * is damaged. On SQLite, also releases the claims of an earlier process. If the function rejects, nothing is left open.
 */
export async function openServedStores(
  config: Config,
  declared: Definition,
  { now, ...notices }: Notices,
  sharing: Sharing = {},
) {
  const dataDir = dataFolder(config)
  const url = databaseUrlOf(config.storage)
  const unlock = lockSqlite(url, now)
  const leave = unlock ?? (await (await import('./storage/postgres/nodes.ts')).joinNodes(url, notices.onError))
  try {
    refuseDamage(url)
    const stores = await openStoresIn(
      config,
      dataDir,
      { ...sharing, migrating: { tables: declared.tables, version: declared.info.version } },
      notices,
    )
    const prepare = async () => unlock && (await takeOver(stores.db, now))
    return await watched(stores, declared, notices, { prepare, leave })
  } catch (error) {
    await leave()
    throw error
  }
}

/**
 * Adapts the definition to the stored column names, and reloads the data keys regularly until the stores are closed.
 */
async function watched(
  stores: Stores,
  declared: Definition,
  { onError }: Pick<Notices, 'onError'>,
  { prepare = async () => {}, leave = () => {} }: { prepare?: () => Promise<unknown>; leave?: () => unknown },
) {
  try {
    await prepare()
    const definition = await storedDefinition(stores.db.read, declared)
    const stopWatching = watchKeys(stores.reloadKeys, onError)
    const close = () =>
      stopWatching()
        .then(() => stores.db.close())
        .finally(leave)
    return { ...stores, definition, close }
  } catch (error) {
    await stores.db.close()
    throw error
  }
}

/**
 * Releases the claims of a terminated process, so that its work continues immediately rather than when the leases
 * expire. Call only if no other process uses the database.
 */
async function takeOver(db: Database, now: () => number): Promise<void> {
  await freeJobs(db)
  await freeDeliveries(db, now())
  await abandonUploads(db, now(), true)
}
