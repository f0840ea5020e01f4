/** What several processes count together in fixed windows. Rejects when the store does not answer in time. */
export interface WindowStore {
  /** Adds a call to the key's window, begun by its first; `used` is the sum after it. */
  add: (key: string, seconds: number) => Promise<{ used: number; endsAtMs: number }>
  /** Null when no window is open. */
  look: (key: string) => Promise<{ used: number; endsAtMs: number } | null>
}

/** Allowances of calendar months; a period is named `2026-11`. */
export interface QuotaStore {
  /** Takes a call unless the limit is reached, in one step; `used` is the sum after it. */
  take: (key: string, period: string, limit: number) => Promise<{ used: number; isGranted: boolean }>
  /** Gives back a call that came to nothing. */
  back: (key: string, period: string) => Promise<void>
  look: (key: string, period: string) => number | Promise<number>
}

/** A key's use of a period. */
export type Use = [key: string, period: string, calls: number]

/** Where quotas outlive every process. */
export interface QuotaRecord extends QuotaStore {
  /** Adds uses and returns the sums after them, in their order. */
  add: (uses: readonly Use[]) => Promise<number[]>
}

/** Where calls are counted. */
export interface Counters {
  record: QuotaRecord
  /** Null where this process counts alone: answers then wait for nothing. */
  shared: { windows: WindowStore; strictWindows: WindowStore; quotas: QuotaStore } | null
}
