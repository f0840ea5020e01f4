import type { FreshnessLines } from '../policies/caching.ts'
import type { HeadedResponse } from '../server/raw-headers.ts'

/**
 * The header section of a response, split at the lines that differ between responses to the same request head: the
 * request id, the limits, the expiry, the fields of the cached response and the date.
 */
export interface ResponseTemplate {
  /** The status line, and the request id's line up to the id. */
  start: string
  afterId: string
  /**
   * Which `FreshnessLines` the caching lines begin with: `own` for requests with credentials, `shared` for other
   * requests. Null if they begin with neither.
   */
  freshness: 'shared' | 'own' | null
  afterFreshness: string
  afterDate: string
}

/** Fields that depend only on the request head and the route. */
const fixedFields = /^((vary|access-control-allow-(origin|credentials)|access-control-expose-headers): .*\r\n)*$/
const dateAndRest = /^Date: [^\r\n]*\r\n((?:[^\r\n]+\r\n)*\r\n)$/

/**
 * Returns the template of a response that the policies have sent; null if its header section has lines that the fast
 * path cannot write. `lines` are the header lines of the cached response.
 */
export function templateOf(
  response: HeadedResponse,
  requestId: string,
  lines: string,
  fresh: FreshnessLines,
): ResponseTemplate | null {
  const { transport, rate, quota, caching } = response
  const section = response.section ?? ''
  const idLine = `x-request-id: ${requestId}`
  const statusEnd = section.indexOf('\r\n') + 2
  const before = section.slice(0, statusEnd) + transport + rate + quota + caching
  const at = section.indexOf(lines, before.length)
  if (!section.startsWith(before) || !transport.startsWith(idLine) || at < 0) return null
  const fields = section.slice(before.length, at)
  const [, afterDate] = dateAndRest.exec(section.slice(at + lines.length)) ?? []
  const freshness = freshnessOf(caching, fresh)
  const afterFreshness = freshness === null ? caching : caching.slice(fresh(freshness).length)
  if (afterDate === undefined || !fixedFields.test(fields) || afterFreshness.includes('expires: ')) return null
  return {
    start: flat(section.slice(0, statusEnd), 'x-request-id: '),
    afterId: flat(transport.slice(idLine.length)),
    freshness,
    afterFreshness: flat(afterFreshness, fields),
    afterDate: flat(afterDate),
  }
}

const freshnessOf = (caching: string, fresh: FreshnessLines): ResponseTemplate['freshness'] =>
  (['shared', 'own'] as const).find((kind) => caching.startsWith(fresh(kind))) ?? null

/** Joins the parts into one flat string, so that the longer strings from which they were cut are not kept in memory. */
const flat = (...parts: string[]): string => Buffer.from(parts.join(''), 'latin1').toString('latin1')

/** Returns a function that renders the `Date` line, as Node.js does: at most once a second, without reading the clock. */
export function dateLines(): () => string {
  let line = ''
  const render = () => {
    const nowMs = Date.now()
    line = ['Date: ', new Date(nowMs).toUTCString(), '\r\n'].join('')
    setTimeout(
      () => {
        line = ''
      },
      1_000 - (nowMs % 1_000),
    ).unref()
    return line
  }
  return () => line || render()
}
