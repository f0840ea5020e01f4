import { malformedQuery } from '../problems/problem.ts'

/** A date, or a date-time with a UTC offset (RFC 3339 §5.6); seconds are optional. */
const form = /^\d{4}-\d\d-\d\d(T([01]\d|2[0-3]):\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/i
const widthOfIso = 24

/**
 * Normalizes an RFC 3339 date-time or date to a fixed-width ISO timestamp in UTC; a date without a time means 00:00
 * UTC. Returns undefined for anything else.
 */
export function instantOf(text: string): string | undefined {
  if (!form.test(text) || !isDay(text.slice(0, 10))) return undefined
  const ms = Date.parse(text)
  const instant = Number.isNaN(ms) ? '' : new Date(ms).toISOString()
  // An offset can move the year outside 0000–9999, and timestamps of different widths do not sort chronologically.
  return instant.length === widthOfIso ? instant : undefined
}

/** Applies `instantOf` to a query parameter. Throws INVALID_INPUT if the value cannot be parsed. */
export function instantFrom(field: string, text: string): string {
  const instant = instantOf(text)
  if (instant !== undefined) return instant
  throw malformedQuery(field, 'must be a date or date-time such as 2026-11-21T00:00:00Z')
}

/** Applies `instantFrom` to an optional query parameter. */
export const instantParameter = (field: string, text: string | undefined): string | undefined =>
  text === undefined ? undefined : instantFrom(field, text)

/** Returns true for a calendar date that exists, such as 2026-01-31. */
export function isDay(text: string): boolean {
  const ms = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : Number.NaN
  // Date.parse turns 30 February into a date in March.
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text)
}
