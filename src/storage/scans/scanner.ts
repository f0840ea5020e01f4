import { CamelCasePlugin, type CompiledQuery, type QueryResult, type UnknownRow } from 'kysely'
import type { SetTimer } from '../timer.ts'
import { type Scan, scanLimitMs } from './scan.ts'
import { scanQueue } from './scan-queue.ts'

export interface Scanner {
  scan: Scan
  close: () => Promise<void>
}

export interface ScannerOptions {
  /** Maximum number of scans running at the same time, in total and per account. */
  running: number
  runningPerAccount: number
  setTimer: SetTimer
  /**
   * Runs a statement. On abort, rejects early if the engine can cancel statements; otherwise settles when the statement
   * ends.
   */
  execute: (query: CompiledQuery<unknown>, signal: AbortSignal) => Promise<unknown[]>
}

/** Enough for a web page that loads several lists at once. */
const waitingPerAccount = 8
const waiting = 256

/** Runs the scans of one database, with fair queueing between accounts and a time limit. */
export function scanner({ running, runningPerAccount, setTimer, execute }: ScannerOptions): Scanner {
  const queue = scanQueue({ running, runningPerAccount, waiting, waitingPerAccount, limitMs: scanLimitMs, setTimer })
  const names = new CamelCasePlugin()
  const scan: Scan = async (query, requester) => {
    const compiled = query.compile()
    const rows = await queue.run(requester, (signal) => execute(compiled, signal))
    const result = { rows } as QueryResult<UnknownRow>
    return (await names.transformResult({ queryId: compiled.queryId, result })).rows as never
  }
  return { scan, close: queue.close }
}
