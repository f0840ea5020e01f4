import type { Config } from './config/config.ts'
import { databaseUrlOf } from './config/storage.ts'
import type { Definition } from './definition/service.ts'
import { storedDefinition } from './definition/stored.ts'
import { watchKeys } from './storage/data-keys/open.ts'
import type { OnCommit } from './storage/database.ts'
import { refuseDamage } from './storage/sqlite/damage.ts'
import { lockSqlite } from './storage/sqlite/lock.ts'
import { dataFolder, openStoresIn, type StoreNotices } from './stores.ts'
import { takeOver } from './worker.ts'

/**
 * Opens the stores of a node, and adapts the definition to the stored column names. Holds a lock until
 * `close`: on a SQLite file, an exclusive lock; on PostgreSQL, a lock that all nodes share. Throws
 * `DatabaseInUse` if the lock is not available, and `DatabaseDamaged` if the SQLite file is damaged. No other process can
 * hold claims in a locked SQLite file, so claims left by an earlier process are released at once. Loads the data keys
 * again every few seconds. If the function rejects, nothing is left open.
 */
export async function openServedStores(
  config: Config,
  declared: Definition,
  { now, ...notices }: StoreNotices & { now: () => number; onError: (error: unknown) => void; onCommit: OnCommit },
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
      { tables: declared.tables, version: declared.info.version },
      notices,
    )
    try {
      if (unlock !== null) await takeOver(stores.db, now)
      const definition = await storedDefinition(stores.db.read, declared)
      const stopWatching = watchKeys(stores.reloadKeys, notices.onError)
      const close = () =>
        stopWatching()
          .then(() => stores.db.close())
          .finally(leave)
      return { ...stores, definition, close }
    } catch (error) {
      await stores.db.close()
      throw error
    }
  } catch (error) {
    await leave()
    throw error
  }
}
