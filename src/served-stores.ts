import type { Config } from './config/config.ts'
import { databaseUrlOf } from './config/storage.ts'
import type { ResourceTable } from './storage/resource-tables/resource-columns.ts'
import { lockSqlite } from './storage/sqlite/lock.ts'
import { dataFolder, openStoresIn } from './stores.ts'
import { takeOver } from './worker.ts'

/**
 * Opens the stores of a serving process. Locks a SQLite file until `close`; throws `DatabaseInUse` if another process holds
 * the lock. While the lock is held, no other process can have claims, so claims left by an earlier process are released at
 * once. If opening fails, nothing is left open.
 */
export async function openServedStores(
  config: Config,
  tables: readonly ResourceTable[],
  { now, onError }: { now: () => number; onError: (error: unknown) => void },
) {
  const dataDir = dataFolder(config)
  const unlock = lockSqlite(databaseUrlOf(config.storage), now)
  try {
    const stores = await openStoresIn(config, dataDir, tables, onError)
    if (unlock !== null) {
      await takeOver(stores.db, now).catch(async (error) => {
        await stores.db.close()
        throw error
      })
    }
    return { ...stores, close: () => stores.db.close().finally(() => unlock?.()) }
  } catch (error) {
    unlock?.()
    throw error
  }
}
