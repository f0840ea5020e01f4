/** The time zone of a service that does not specify one. */
export const defaultZone = 'UTC'

/** Returns true for a time zone name that Node.js supports, such as `Europe/Berlin`. */
export function isZone(zone: unknown): zone is string {
  // The check below loads ICU's time zones, which would delay the start of a service that does not need them.
  if (zone === defaultZone) return true
  if (typeof zone !== 'string') return false
  try {
    return new Intl.DateTimeFormat('en', { timeZone: zone }) !== null
  } catch {
    return false
  }
}

/** Returns the function that determines the current day, such as `2026-03-01`, in a time zone. */
export function todayIn({ zone = defaultZone, now }: { zone?: string | undefined; now: () => number }): () => string {
  if (zone === defaultZone) return () => new Date(now()).toISOString().slice(0, 10)
  const parts = { year: 'numeric', month: '2-digit', day: '2-digit' } as const
  const format = new Intl.DateTimeFormat('en-CA', { ...parts, timeZone: zone, calendar: 'gregory' })
  return () => {
    const named = new Map(format.formatToParts(now()).map(({ type, value }) => [type, value]))
    return `${named.get('year')}-${named.get('month')}-${named.get('day')}`
  }
}
