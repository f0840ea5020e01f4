import type { Config } from '../config/config.ts'
import { openResults } from '../files/open.ts'
import type { ReadOnlyDatabase } from '../storage/database.ts'
import type { DatabaseContext } from './check.ts'
import { type CheckResult, databaseCheckList, defaultsOf, made } from './examine.ts'

export interface DeepOptions extends Pick<DatabaseContext, 'readSealer'> {
  config: Config
  dataDir: string
  db: ReadOnlyDatabase
}

const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

/** Makes the deep checks of a database, one after another. Runs in a separate thread, because it blocks it for long. */
export async function deepResults(options: DeepOptions): Promise<CheckResult[]> {
  const { db } = options
  const context: DatabaseContext = {
    ...{ ...defaultsOf(db), ...options },
    // No deep check reads the definition.
    ...{ definition: { tables: [] }, runtime: process, now: Date.now, monotonic: () => performance.now() },
    isDeep: true,
    openResults,
  }
  const results: CheckResult[] = []
  for (const check of databaseCheckList.filter(({ deep }) => deep !== undefined)) {
    const { result } = await made(check, context, { later })
    if (result !== null) results.push({ ...result, detail: result.detail.replaceAll(/\s+/g, ' ') })
  }
  return results
}
