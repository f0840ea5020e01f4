import type { Compilable } from 'kysely'

/** For whom a scan runs. */
export interface Requester {
  /** Scans of one account wait for each other; see `requesterOf` in `http/requester.ts`. */
  account: string
  /** Aborted when nobody reads the answer any more: a scan that still waits then is not run. */
  signal?: AbortSignal
}

/**
 * Runs a read whose cost no index bounds, apart from the thread and the connections that serve everything else. It sees
 * every write that was answered before. Rejects with `ScanRefused` when its account has too many of them, or when it has
 * not ended after `scanLimitMs`, the time it waited included. Conditions hold `engine.interruptible`, so that it ends then.
 */
export type Scan = <Row>(query: Compilable<Row>, requester: Requester) => Promise<Row[]>

/** A scan that was not run to its end. To HTTP the store is unavailable: 503 with Retry-After. */
export class ScanRefused extends Error {
  override name = 'ScanRefused'
}

/** The longest that a scan may wait and run. */
export const scanLimitMs = 5_000

/** Runs something after so many ms; returns how to cancel it. */
export type Later = (ms: number, run: () => void) => () => void
