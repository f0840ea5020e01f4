/** Calls in windows under way; `key`, `points` and `expire` (epoch ms) are the names that rate-limiter-flexible uses. */
export interface LimitWindowsTable {
  key: string
  points: number
  expire: number | null
}

/** What an account has used of a calendar month. */
export interface QuotaUsesTable {
  key: string
  /** `2026-11` */
  period: string
  used: number
  /** How much of what was asked for last was given. */
  granted: number
}
