const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

const day = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)'
const longDay = '(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day'
const month = `(?<month>${months.join('|')})`
const time = String.raw`(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)`

/** IMF-fixdate and the two obsolete formats that every recipient must accept (RFC 9110 §5.6.7). */
const forms = [
  new RegExp(String.raw`^${day}, (?<date>\d\d) ${month} (?<year>\d{4}) ${time} GMT$`),
  new RegExp(String.raw`^${longDay}, (?<date>\d\d)-${month}-(?<year>\d\d) ${time} GMT$`),
  new RegExp(String.raw`^${day} ${month} (?<date>[ \d]\d) ${time} (?<year>\d{4})$`),
]

/**
 * Parses an HTTP date in any of the three formats and returns epoch milliseconds; NaN for anything else, including 30
 * February.
 */
export function parseHttpDate(text: string): number {
  for (const form of forms) {
    const groups = form.exec(text)?.groups
    if (groups) return toMs(groups)
  }
  return Number.NaN
}

function toMs(groups: Record<string, string>): number {
  const { date, hour, minute, second, year = '' } = groups
  const month = months.indexOf(groups.month as string)
  const ms = Date.UTC(fullYear(year), month, Number(date), Number(hour), Number(minute), Number(second))
  const isReal = new Date(ms).getUTCMonth() === month && Number(date) > 0
  // Second 60 is valid, because the grammar allows a leap second.
  return isReal && Number(hour) < 24 && Number(minute) < 60 && Number(second) <= 60 ? ms : Number.NaN
}

/** Returns a year as a number; two digits stand for a year from 1970 to 2069. */
const fullYear = (digits: string): number =>
  digits.length === 4 ? Number(digits) : Number(digits) + (Number(digits) < 70 ? 2_000 : 1_900)

/** Converts a fixed-width ISO timestamp to an HTTP date (RFC 9110 §5.6.7). */
export const httpDate = (iso: string) => new Date(iso).toUTCString()

/** Returns an `httpDate` function that caches its last result, because many rows share a timestamp. */
export function httpDates(): (iso: string) => string {
  let last = ''
  let date = ''
  return (iso) => {
    if (iso !== last) date = httpDate(iso)
    last = iso
    return date
  }
}
