import type { ResultStore } from '../files/store.ts'
import { cachedRead } from '../metrics/cached-read.ts'
import type { Database } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { type ExamineOptions, examine, type HealthReport } from './examine.ts'

/** The options of a running service, whose open database is used. */
export interface HealthReaderOptions
  extends Omit<ExamineOptions, 'openDatabase' | 'openResults' | 'readSealer' | 'isDeep' | 'runtime'> {
  db: Pick<Database, 'reserved'>
  sealer: Sealer
  results: Pick<ResultStore, 'probe' | 'open'>
  /** Receives an error of the examination itself. */
  onError: (error: unknown) => void
}

/** Returns a report that may be some seconds old; null if the checks take too long. */
export type ReadHealth = () => Promise<HealthReport | null>

const freshMs = 10_000
/** Longer than the time limits of the checks, of which at most one of the database can be exceeded. */
const limitMs = 20_000

/**
 * Returns a function that examines a running service, without the deep checks. All callers share one examination, and
 * its report is reused for ten seconds.
 */
export function healthReader(options: HealthReaderOptions): ReadHealth {
  const { db, sealer, results, monotonic, later, onError } = options
  const readSealer = async () => sealer
  const openResults = async () => results
  const openDatabase = async () => {
    await db.reserved.ping()
    // The service closes its database itself.
    return { ...db.reserved, close: async () => {} }
  }
  const read = () => examine({ ...options, runtime: process, isDeep: false, openResults, readSealer, openDatabase })
  return cachedRead({ read, freshMs, limitMs, monotonic, later, onError })
}
