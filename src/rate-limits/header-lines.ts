import type { Limit } from './limit.ts'

/**
 * Builds a header fragment that many responses reuse as one flat string: concatenation with `+` makes a rope, which would be
 * flattened again for each response.
 */
const piece = (...parts: (string | number)[]): string => parts.join('')

/** Header text of a window: the caller inserts the calls left (twice) and the seconds until it ends. */
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

/** The text after the seconds: the RateLimit-Policy line of an operation. */
export const policyEnd = (policies: string): string => piece('\r\nratelimit-policy: ', policies, '\r\n')

/** The text of a quota up to the calls left. */
export const quotaStart = (limit: number): string => piece('x-quota-limit: ', limit, '\r\nx-quota-remaining: ')

/** The text after the calls left. */
export const quotaEnd = (resetsAt: number): string => piece('\r\nx-quota-reset: ', resetsAt, '\r\n')
