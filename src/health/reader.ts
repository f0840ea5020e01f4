import type { ResultStore } from '../files/store.ts'
import { cachedRead } from '../metrics/cached-read.ts'
import type { Database } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { type ExamineOptions, examine, type HealthReport } from './examine.ts'

/** Options for checking a running service through its open database. */
export interface HealthReaderOptions
  extends Omit<ExamineOptions, 'openDatabase' | 'openResults' | 'readSealer' | 'isDeep' | 'runtime'> {
  db: Pick<Database, 'reserved'>
  sealer: Sealer
  results: Pick<ResultStore, 'probe' | 'open'>
  /** Called with the error if the examination itself fails. */
  onError: (error: unknown) => void
}

/** Returns a report that may be up to ten seconds old; null if the checks fail to run or take too long. */
export type ReadHealth = () => Promise<HealthReport | null>

const freshMs = 10_000
/**
 * The time limit of all checks together. It is longer than that of one check, so that a report is sent even if a database
 * check times out; the remaining database checks are then skipped.
 */
const limitMs = 20_000

/**
 * Returns a function that runs all checks except the deep ones on a running service. All callers share one run, and its
 * report is reused for ten seconds.
 */
export function healthReader(options: HealthReaderOptions): ReadHealth {
  const { db, sealer, results, monotonic, later, onError } = options
  const readSealer = async () => sealer
  const openResults = async () => results
  const openDatabase = async () => {
    await db.reserved.ping()
    // `close` does nothing, because the service itself closes the database.
    return { ...db.reserved, close: async () => {} }
  }
  const read = () => examine({ ...options, runtime: process, isDeep: false, openResults, readSealer, openDatabase })
  return cachedRead({ read, freshMs, limitMs, monotonic, later, onError })
}
