/** The entry point of an inspection thread: runs one full data check, posts the result, and exits. */
import { randomBytes } from 'node:crypto'
import { parentPort, workerData } from 'node:worker_threads'
import { verifyArchives, verifyAudit } from '../audit/verify.ts'
import { databaseUrlOf, resultsUrlOf } from '../config/storage.ts'
import { openResults } from '../files/open.ts'
import { deepResults } from '../health/deep.ts'
import type { CheckResult } from '../health/examine.ts'
import type { FromThread } from '../run-thread.ts'
import { readSealer } from '../storage/data-keys/open.ts'
import type { ReadOnlyDatabase } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { lowerPriority } from '../storage/low-priority.ts'
import { openReadOnly } from '../storage/open.ts'
import { existingMasterKey } from '../stores.ts'
import type { AuditInput, AuditResult, InspectionData } from './inspections.ts'

const { config, dataDir, audit } = workerData as InspectionData
lowerPriority()
// The connection is read-only and holds no locks, so ending the thread leaves nothing behind.
parentPort?.on('message', () => process.exit())

const sealerOf = async (read: ReadOnlyDatabase['read']): Promise<Sealer | null> => {
  const key = existingMasterKey(config.storage.masterKey, dataDir)
  return key === undefined ? null : readSealer(read, key, (size) => randomBytes(size))
}

async function verifiedAudit(db: ReadOnlyDatabase, { expect, archives }: AuditInput): Promise<AuditResult> {
  const sealer = await sealerOf(db.read)
  if (sealer === null) throw new Error('There is no master key, so the audit log cannot be verified')
  const verdict = await verifyAudit(db, sealer, expect)
  if (!verdict.whole) return { intact: false, altered: { sequence: verdict.sequence, reason: verdict.reason } }
  const { sequence, hash } = verdict
  const intact = { intact: true, entries: sequence, ...(sequence > 0 && { checkpoint: { sequence, hash } }) }
  if (!archives) return intact
  const archived = await verifyArchives(db, sealer, await openResults(resultsUrlOf(config.storage)), expect)
  return archived.whole
    ? { ...intact, archives: archived.archives }
    : { intact: false, altered: { reason: archived.reason } }
}

async function outcome(): Promise<CheckResult[] | AuditResult> {
  const db = await openReadOnly(databaseUrlOf(config.storage), { isUnlimited: true })
  try {
    if (audit !== null) return await verifiedAudit(db, audit)
    return await deepResults({ config, dataDir, db, readSealer: sealerOf })
  } finally {
    await db.close()
  }
}

type Message = FromThread<CheckResult[] | AuditResult>
const post = (message: Message) => parentPort?.postMessage(message)
try {
  post({ result: await outcome() })
} catch (error) {
  post({ error })
}
parentPort?.unref()
