import type { Compilable } from 'kysely'

/** The account and client on whose behalf a scan runs. */
export interface ScanRequester {
  /** Scans of one account wait for each other; see `requesterOf` in `http/requester.ts`. */
  account: string
  /** Aborted when the client disconnects; a scan that is still waiting is then dropped. */
  signal?: AbortSignal
}

/**
 * Runs a read whose cost is not bounded by an index, off the serving thread and on connections of its own. It sees every
 * write acknowledged before. Rejects with `ScanRefused` if the account has too many scans, or if the scan has not finished
 * within `scanLimitMs`, including waiting. Its conditions must include `engine.interruptible`, so that it can be stopped.
 */
export type Scan = <Row>(query: Compilable<Row>, requester: ScanRequester) => Promise<Row[]>

/** A scan was rejected or stopped. Over HTTP this is 503 with Retry-After. */
export class ScanRefused extends Error {
  override name = 'ScanRefused'
}

/** Maximum time a scan may wait and run, in ms. */
export const scanLimitMs = 5_000

/** Calls `run` after `ms` milliseconds; returns a function that cancels the timer. */
export type SetTimer = (ms: number, run: () => void) => () => void
