import type { Limit } from './limit.ts'

/**
 * Builds a header fragment as one flat string, because many responses reuse it: concatenation with `+` would create a rope,
 * which would be flattened again for each response.
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

/** Returns the text after the number of seconds: the RateLimit-Policy line with an operation's policies. */
export const policyEnd = (policies: string): string => piece('\r\nratelimit-policy: ', policies, '\r\n')

/** Returns a quota's header text up to the number of calls left. */
export const quotaStart = (limit: number): string => piece('x-quota-limit: ', limit, '\r\nx-quota-remaining: ')

/** Returns a quota's header text after the number of calls left. */
export const quotaEnd = (resetsAt: number): string => piece('\r\nx-quota-reset: ', resetsAt, '\r\n')
