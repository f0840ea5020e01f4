import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Config, databaseUrlOf } from './config.ts'
import { migrate } from './db/migrate.ts'
import { type Database, openDatabase } from './db/open.ts'
import type { ResourceTable } from './db/resource-tables.ts'
import { type Sealer, sealer } from './db/seal.ts'
import { lockSqlite } from './db/sqlite-lock.ts'
import { masterKey } from './master-key.ts'
import { takeOver } from './worker.ts'

/** A store opened as the configuration says, its schema up to date. */
export interface Stores {
  db: Database
  sealer: Sealer
  dataDir: string
}

/**
 * Opens the database and the keys, making what the first run lacks, the tables of declared resources included. Rejects
 * with nothing left open.
 */
export async function openStores(config: Config, tables: readonly ResourceTable[] = []): Promise<Stores> {
  const dataDir = resolve(config.dataDir)
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const seals = sealer(masterKey(config, dataDir), randomBytes)
  const db = await openDatabase(databaseUrlOf(config))
  await migrate(db, { tables }).catch(async (error) => {
    await db.close()
    throw error
  })
  return { db, dataDir, sealer: seals }
}

/**
 * The same for a process that serves. Of a SQLite file it is the only one, or this throws `DatabaseInUse`; so what an earlier
 * process had claimed is free at once. `close` also lets the next process in.
 */
export async function openServedStores(config: Config, tables: readonly ResourceTable[], now: () => number) {
  const unlock = lockSqlite(databaseUrlOf(config), now)
  try {
    const stores = await openStores(config, tables)
    if (unlock !== null) await takeOver(stores.db, now)
    return { ...stores, close: () => stores.db.close().finally(() => unlock?.()) }
  } catch (error) {
    unlock?.()
    throw error
  }
}
