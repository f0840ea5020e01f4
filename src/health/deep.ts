import type { Config } from '../config/config.ts'
import { openResults } from '../files/open.ts'
import type { ReadOnlyDatabase } from '../storage/database.ts'
import type { DatabaseContext } from './check.ts'
import { type CheckResult, databaseCheckList, defaultMeasurements, runCheck } from './examine.ts'

export interface DeepOptions extends Pick<DatabaseContext, 'readSealer'> {
  config: Config
  dataDir: string
  db: ReadOnlyDatabase
}

const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

/** Runs the deep checks of a database one after another. Call this in a worker thread: it blocks the event loop. */
export async function deepResults(options: DeepOptions): Promise<CheckResult[]> {
  const { db } = options
  const context: DatabaseContext = {
    ...{ ...defaultMeasurements(db), ...options },
    // Deep checks do not use the definition.
    ...{ definition: { tables: [] }, runtime: process, now: Date.now, monotonic: () => performance.now() },
    isDeep: true,
    openResults,
  }
  const results: CheckResult[] = []
  for (const check of databaseCheckList.filter(({ deep }) => deep !== undefined)) {
    const { result } = await runCheck(check, context, { later })
    if (result !== null) results.push({ ...result, detail: result.detail.replaceAll(/\s+/g, ' ') })
  }
  return results
}
