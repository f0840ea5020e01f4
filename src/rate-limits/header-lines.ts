import type { Limit } from './limit.ts'

/**
 * Builds a header fragment as one flat string, because many responses reuse it: concatenation with `+` would create a
 * rope, which would be flattened again for each response.
 */
const piece = (...parts: (string | number)[]): string => parts.join('')

/**
 * Header text for a window. The caller adds the number of calls left (twice) and the number of seconds until the window
 * ends.
 */
export interface RateLines {
  toLeft: string
  toLeftAgain: string
  end: string
}

export const rateLines = ({ name, calls, policy }: Limit, resetsAt: number): RateLines => ({
  toLeft: piece('x-ratelimit-limit: ', calls, '\r\nx-ratelimit-reset: ', resetsAt, '\r\nx-ratelimit-remaining: '),
  toLeftAgain: piece('\r\nratelimit: "', name, '";r='),
  end: policyEnd(policy),
})

/** Returns the end of the header block: the `RateLimit-Policy` line. It follows the seconds in `RateLimit: …;t=`. */
export const policyEnd = (policies: string): string => piece('\r\nratelimit-policy: ', policies, '\r\n')

/** Returns the header lines of a quota up to the number of calls left. */
export const quotaStart = (limit: number): string => piece('x-quota-limit: ', limit, '\r\nx-quota-remaining: ')

/** Returns the header lines of a quota after the number of calls left. */
export const quotaEnd = (resetsAt: number): string => piece('\r\nx-quota-reset: ', resetsAt, '\r\n')
