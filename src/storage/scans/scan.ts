import type { Compilable } from 'kysely'

/** The account on whose behalf a scan runs, and the signal that cancels the scan. */
export interface ScanRequester {
  /** Scans by the same account wait for each other; see `requesterOf` in `http/requester.ts`. */
  account: string
  /** Aborted when the client disconnects, which removes a waiting scan from the queue. */
  signal?: AbortSignal
}

/**
 * Runs a read whose cost is not bounded by an index, off the main thread and on a separate connection. The read sees
 * every write that was acknowledged before it. Rejects with `ScanRefused` if too many scans are waiting, or if the scan
 * does not finish within `scanLimitMs`, including waiting time. The conditions must include `engine.interruptible`, so
 * that the scan can be stopped.
 */
export type Scan = <Row>(query: Compilable<Row>, requester: ScanRequester) => Promise<Row[]>

/** Thrown if a scan was rejected or stopped. Over HTTP, this is a 503 with Retry-After. */
export class ScanRefused extends Error {
  override name = 'ScanRefused'
}

/** Maximum time a scan may wait and run, in ms. */
export const scanLimitMs = 5_000
