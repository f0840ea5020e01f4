import type { Compilable } from 'kysely'

/** On whose behalf a scan runs. */
export interface ScanRequester {
  /** Scans of one account queue behind each other; see `requesterOf` in `http/requester.ts`. */
  account: string
  /** Aborted when the client is gone: a scan that is still waiting is then not run. */
  signal?: AbortSignal
}

/**
 * Runs a read whose cost no index bounds, off the serving thread, on connections of its own. It sees every write
 * acknowledged before. Rejects with `ScanRefused` when its account has too many scans, or when the scan has not ended after
 * `scanLimitMs`, including waiting. Its conditions must include `engine.interruptible`, so that it ends then.
 */
export type Scan = <Row>(query: Compilable<Row>, requester: ScanRequester) => Promise<Row[]>

/** A scan that was not completed. For HTTP the database is unavailable: 503 with Retry-After. */
export class ScanRefused extends Error {
  override name = 'ScanRefused'
}

/** Maximum time a scan may wait and run, in ms. */
export const scanLimitMs = 5_000

/** Calls `run` after `ms` milliseconds; returns a function that cancels the timer. */
export type SetTimer = (ms: number, run: () => void) => () => void
