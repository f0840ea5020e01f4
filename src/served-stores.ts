import { type Config, databaseUrlOf } from './config/config.ts'
import type { ResourceTable } from './storage/resource-tables/resource-columns.ts'
import { lockSqlite } from './storage/sqlite/lock.ts'
import { dataFolder, openStoresIn } from './stores.ts'
import { takeOver } from './worker.ts'

/**
 * Opens the stores of a process that serves. Of a SQLite file it is the only one, or this throws `DatabaseInUse`; so what
 * an earlier process had claimed is free at once. `close` also lets the next process in. Rejects with nothing left open.
 */
export async function openServedStores(
  config: Config,
  tables: readonly ResourceTable[],
  { now, onError }: { now: () => number; onError: (error: unknown) => void },
) {
  const dataDir = dataFolder(config)
  const unlock = lockSqlite(databaseUrlOf(config), now)
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
