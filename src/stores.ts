import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Config, databaseUrlOf } from './config.ts'
import { migrate } from './db/migrate.ts'
import { type Database, openDatabase } from './db/open.ts'
import type { ResourceTable } from './db/resource-tables.ts'
import { type Sealer, sealer } from './db/seal.ts'
import { masterKey } from './master-key.ts'

/** A store opened as the configuration says, its schema up to date. */
export interface Stores {
  db: Database
  sealer: Sealer
  dataDir: string
}

/**
 * Opens the database and the keys, making what the first run lacks, the tables of declared resources included. Rejects
 * with nothing left open. `onError` receives what later fails in the background.
 */
export async function openStores(
  config: Config,
  tables: readonly ResourceTable[] = [],
  onError: (error: unknown) => void = () => {},
): Promise<Stores> {
  const dataDir = resolve(config.dataDir)
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const seals = sealer(masterKey(config, dataDir), randomBytes)
  const db = await openDatabase(databaseUrlOf(config), { onError })
  await migrate(db, { tables }).catch(async (error) => {
    await db.close()
    throw error
  })
  return { db, dataDir, sealer: seals }
}
