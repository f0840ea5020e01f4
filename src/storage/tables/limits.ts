/** Calls in current windows; `key`, `points` and `expire` (epoch ms) are the names that rate-limiter-flexible uses. */
export interface LimitWindowsTable {
  key: string
  points: number
  expire: number | null
}

/** Usage of an account in a calendar month. */
export interface QuotaUsesTable {
  key: string
  /** `2026-11` */
  period: string
  used: number
  /** How much of the last request for quota was granted. */
  granted: number
}
