import { quotaEnd } from './lines.ts'

/** A calendar month of UTC, in which quotas are counted. */
export interface Month {
  /** `2026-11` */
  name: string
  startsAtMs: number
  endsAtMs: number
  /** The end in epoch seconds, as answers say it. */
  resetsAt: number
  /** The end of the lines of a quota. */
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

/** The month of an instant, made anew when it changes. */
export function calendar(): (atMs: number) => Month {
  let month = monthOf(0)
  return (atMs) => {
    if (atMs >= month.endsAtMs || atMs < month.startsAtMs) month = monthOf(atMs)
    return month
  }
}
