import type { Limit } from './limit.ts'

/**
 * What the lines of answers repeat, each made once and as one piece: text put together with `+` stays a tree of pieces in
 * memory, and is gathered anew with each answer it is part of.
 */
const piece = (...parts: (string | number)[]): string => parts.join('')

/** The lines of a window, around the calls left (twice) and the seconds until it ends. */
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

/** What comes behind the seconds: the policies of an operation. */
export const policyEnd = (policies: string): string => piece('\r\nratelimit-policy: ', policies, '\r\n')

/** The line of an allowance, and the next one as far as the calls left. */
export const quotaStart = (limit: number): string => piece('x-quota-limit: ', limit, '\r\nx-quota-remaining: ')

/** What comes behind the calls left. */
export const quotaEnd = (resetsAt: number): string => piece('\r\nx-quota-reset: ', resetsAt, '\r\n')
