/** Request counts in current windows; rate-limiter-flexible requires the names `key`, `points` and `expire` (epoch ms). */
export interface LimitWindowsTable {
  key: string
  points: number
  expire: number | null
}

/** The quota that an account has used in a calendar month. */
export interface QuotaUsesTable {
  key: string
  /** `2026-11` */
  period: string
  used: number
  /** How much of the most recent quota request was granted. */
  granted: number
}
