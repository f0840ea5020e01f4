import type { Caller } from '../http/policies/authenticate.ts'
import { Problem } from '../http/problems/problem.ts'
import { whenAborted } from '../http/server/response-end.ts'

/** An account: a client and the subject on whose behalf it acts. */
export type SlotOwner = Pick<Caller, 'clientId' | 'subject'>

/** Which limit was reached: the account's or the process's. */
export type Full = 'account' | 'process'

/** Limits how many long-running requests of one kind, such as downloads, this process serves at the same time. */
export interface SlotLimiter {
  /** Maximum number of concurrent requests per account. */
  perAccount: number
  /** Takes a slot and holds it until the signal is aborted. If no slot is free, returns which limit was reached. */
  take: (account: SlotOwner, until: AbortSignal) => Full | undefined
}

export const defaultDownloadsPerAccount = 10
export const defaultUploadsPerAccount = 4
/** Maximum number of concurrent uploads per process; with S3, each of them takes 16 MiB of memory. */
export const maxUploadsInAll = 16

export interface SlotLimiterOptions {
  perAccount: number
  /**
   * Maximum number of concurrent requests from all accounts together: a safeguard against a large number of accounts.
   */
  inTotal: number
}

export function slotLimiter({ perAccount, inTotal }: SlotLimiterOptions): SlotLimiter {
  const taken = new Map<string, number>()
  let total = 0
  const add = (account: string, change: 1 | -1) => {
    const count = (taken.get(account) ?? 0) + change
    if (count > 0) taken.set(account, count)
    else taken.delete(account)
    total += change
  }
  return {
    perAccount,
    take: ({ clientId, subject }, until) => {
      const account = JSON.stringify([clientId, subject])
      if ((taken.get(account) ?? 0) >= perAccount) return 'account'
      if (total >= inTotal) return 'process'
      add(account, 1)
      whenAborted(until, () => add(account, -1))
      return undefined
    },
  }
}

const retryAfter = { 'retry-after': '5' }

/**
 * Takes a slot for a request. Throws RATE_LIMIT_EXCEEDED if the account's limit is reached, or SERVICE_UNAVAILABLE if
 * the process's limit is reached. `what` names the limited kind in the error message, such as `downloads`.
 */
export function acquireSlot(slotLimiter: SlotLimiter, account: SlotOwner, until: AbortSignal, what: string): void {
  const full = slotLimiter.take(account, until)
  if (full === 'account') {
    const detail = `${slotLimiter.perAccount} of your ${what} are already open, the maximum: close one or try again later`
    throw new Problem('RATE_LIMIT_EXCEEDED', detail, { headers: retryAfter })
  }
  if (full === 'process') {
    const detail = `The service has too many open ${what}: try again later`
    throw new Problem('SERVICE_UNAVAILABLE', detail, { headers: retryAfter })
  }
}
