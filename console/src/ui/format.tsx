const second = 1_000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })
const units: [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', day],
  ['hour', hour],
  ['minute', minute],
  ['second', second],
]

/** Returns a time relative to now, such as "5 minutes ago". */
export function agoText(at: string | number | Date, now = Date.now()): string {
  const ms = new Date(at).getTime() - now
  const [unit, size] = units.find(([, size]) => Math.abs(ms) >= size) ?? ['second', second]
  return relative.format(Math.round(ms / size), unit as Intl.RelativeTimeFormatUnit)
}

/**
 * Shows a time in the local time zone or, with `isRelative`, as "5 minutes ago". The tooltip shows it in UTC. Shows "–"
 * for null.
 */
export function Time({ at, isRelative = false }: { at: string | null | undefined; isRelative?: boolean }) {
  if (at === null || at === undefined) return <span>–</span>
  const date = new Date(at)
  const text = local.format(date)
  const title = `${isRelative ? `${text} · ` : ''}${date.toISOString()}`
  return (
    <time dateTime={date.toISOString()} title={title}>
      {isRelative ? agoText(date) : text}
    </time>
  )
}

interface Owner {
  ownerClient: string
  ownerName?: string | undefined
  ownerSubject?: string | undefined
}

/** Shows the client that created a webhook, by name if known, and the user on whose behalf it did so. */
export function OwnerText({ ownerClient, ownerName, ownerSubject }: Owner) {
  return (
    <>
      {ownerName ?? <code>{ownerClient}</code>}
      {ownerSubject !== ownerClient && <span className="quiet small"> for user {ownerSubject}</span>}
    </>
  )
}

/** Returns a time as the value of a `datetime-local` input. */
export function localInputText(at: string | number): string {
  const date = new Date(at)
  return new Date(date.getTime() - date.getTimezoneOffset() * minute).toISOString().slice(0, 16)
}

const number = new Intl.NumberFormat('en')

/** Formats a count, with a separator for thousands. */
export const countText = (value: number) => number.format(value)
export const percentText = (share: number) => `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)}%`

/** Formats a size in bytes, such as "1.2 MB", as the command line and the health checks do. */
export function bytesText(bytes: number): string {
  const names = ['bytes', 'kB', 'MB', 'GB', 'TB']
  const step = Math.min(names.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3))
  return `${(bytes / 1000 ** step).toFixed(step === 0 ? 0 : 1)} ${names[step]}`
}

/** Formats a duration in milliseconds, such as "340 ms" or "1.2 s". */
export function durationText(ms: number): string {
  if (ms < second) return `${ms > 0 && ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`
  if (ms < minute) return `${(ms / second).toFixed(1)} s`
  if (ms < hour) return `${Math.round(ms / minute)} min`
  return ms < 2 * day ? `${Math.round(ms / hour)} h` : `${Math.round(ms / day)} days`
}

/** Returns JSON with line breaks and indentation; any other text as it is. */
export function prettyText(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}
