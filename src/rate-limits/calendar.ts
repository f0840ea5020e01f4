import { quotaEnd } from './header-lines.ts'

/** A calendar month in UTC, which is the period of all quotas. */
export interface Month {
  /** The year and month, such as `2026-11`. */
  name: string
  startsAtMs: number
  endsAtMs: number
  /** The end of the month in epoch seconds, as sent in headers. */
  resetsAt: number
  /** The last part of the raw quota headers, which is the same for all quotas of the month. */
  quotaEnd: string
}

export function monthOf(atMs: number): Month {
  const date = new Date(atMs)
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()]
  const endsAtMs = Date.UTC(year, month + 1)
  const resetsAt = endsAtMs / 1_000
  return {
    name: date.toISOString().slice(0, 7),
    startsAtMs: Date.UTC(year, month),
    endsAtMs,
    resetsAt,
    quotaEnd: quotaEnd(resetsAt),
  }
}

/** Returns a function that maps an instant to its month; creates a new month only when the month changes. */
export function calendar(): (atMs: number) => Month {
  let month = monthOf(0)
  return (atMs) => {
    if (atMs >= month.endsAtMs || atMs < month.startsAtMs) month = monthOf(atMs)
    return month
  }
}
