import { Problem } from './problem.ts'

const isoDate = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/

/** An instant or a day (RFC 3339) as fixed-width ISO text in UTC, a day as its start; undefined when it is neither. */
export function instantOf(text: string): string | undefined {
  const ms = isoDate.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString()
}

/** The same of a query parameter that may be absent. Throws INVALID_INPUT when it cannot be read. */
export function instantParameter(field: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const instant = instantOf(text)
  if (instant !== undefined) return instant
  const errors = [{ field, message: 'must be an instant such as 2026-11-21T00:00:00Z' }]
  throw new Problem('INVALID_INPUT', 'The query is malformed', { errors })
}
