import type { Limit } from './limit.ts'

/**
 * Builds a header fragment, which many responses reuse, as one flat string: concatenation with `+` creates a rope, which
 * would be flattened again for each response.
 */
const piece = (...parts: (string | number)[]): string => parts.join('')

/**
 * Header text for a window. The caller inserts the number of calls left (twice) and the number of seconds until the window
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

/** Returns the text after the number of seconds: the RateLimit-Policy line of an operation. */
export const policyEnd = (policies: string): string => piece('\r\nratelimit-policy: ', policies, '\r\n')

/** Returns the text of a quota up to the number of calls left. */
export const quotaStart = (limit: number): string => piece('x-quota-limit: ', limit, '\r\nx-quota-remaining: ')

/** Returns the text of a quota after the number of calls left. */
export const quotaEnd = (resetsAt: number): string => piece('\r\nx-quota-reset: ', resetsAt, '\r\n')
