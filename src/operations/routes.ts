import type { FastifyInstance } from 'fastify'
import type { Backups } from '../backup/api/backups.ts'
import { backupRoutes } from '../backup/api/routes.ts'
import type { DescribedSetting } from '../config/describe.ts'
import type { ReadHealth } from '../health/reader.ts'
import { healthReport } from '../health/route.ts'
import type { Inspections } from '../inspection/inspections.ts'
import { inspectionRoutes } from '../inspection/routes.ts'
import type { Database } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { settingsRoute } from './settings-route.ts'
import type { StorageReport } from './storage.ts'
import { storageRoute } from './storage-route.ts'

/** The data sources and actions of the operator routes. */
export interface Operations {
  settings: readonly DescribedSetting[]
  readHealth: ReadHealth
  readStorage: () => Promise<StorageReport | null>
  backups: Backups
  inspections: Inspections
}

export interface OperationRoutesOptions {
  db: Database
  sealer: Sealer
  now: () => number
  operations: Operations
}

/** Routes for operators: health, settings, storage, backups, and full data checks. */
export async function operationRoutes(
  app: FastifyInstance,
  { operations, db, sealer, now }: OperationRoutesOptions,
): Promise<void> {
  const { settings, readHealth, readStorage, backups, inspections } = operations
  await healthReport(app, { readHealth })
  await settingsRoute(app, { settings })
  await storageRoute(app, { readStorage })
  await backupRoutes(app, { db, sealer, now, backups })
  await inspectionRoutes(app, { db, inspections })
}
