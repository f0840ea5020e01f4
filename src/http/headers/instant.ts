import { Problem } from '../problems/problem.ts'

/** A day, or a time with its offset (RFC 3339 §5.6), whose seconds may be left out. */
const form = /^\d{4}-\d\d-\d\d(T([01]\d|2[0-3]):\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/i
const widthOfIso = 24

/** An instant or a day (RFC 3339) as fixed-width ISO text in UTC, a day as its start; undefined when it is neither. */
export function instantOf(text: string): string | undefined {
  if (!form.test(text) || !isDay(text.slice(0, 10))) return undefined
  const ms = Date.parse(text)
  const instant = Number.isNaN(ms) ? '' : new Date(ms).toISOString()
  // An offset can lead out of the years of four digits, and texts of other widths do not compare as instants do.
  return instant.length === widthOfIso ? instant : undefined
}

/** The same of a query parameter. Throws INVALID_INPUT when it cannot be read. */
export function instantFrom(field: string, text: string): string {
  const instant = instantOf(text)
  if (instant !== undefined) return instant
  const errors = [{ field, message: 'must be an instant such as 2026-11-21T00:00:00Z' }]
  throw new Problem('INVALID_INPUT', 'The query is malformed', { errors })
}

/** The same of one that may be absent. */
export const instantParameter = (field: string, text: string | undefined): string | undefined =>
  text === undefined ? undefined : instantFrom(field, text)

/** A day of the calendar, such as 2026-01-31. */
export function isDay(text: string): boolean {
  const ms = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : Number.NaN
  // Date.parse moves the 30th of February into March.
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text)
}
