import type { FastifyRequest } from 'fastify'
import type { Bucket } from './account.ts'
import type { Parts } from './context.ts'
import { isExceeded, isOver } from './fixed-window.ts'
import { quotaLines, rateLimitLines } from './headers.ts'
import { quotaLeft } from './quota.ts'
import { consume } from './threads/window-cell.ts'
import { isFree, reserve } from './throttle.ts'

/**
 * Counts a request as `admitLocally` does and returns the header lines of the limits, if the request is certainly admitted
 * without delay. Otherwise, returns null and counts nothing.
 */
export type AdmitAtOnce = () => string | null

/**
 * Returns the function that counts further requests for the account of a request. They must be reads without a limit of
 * their own. The counters must not be shared with other processes.
 */
export const admitAtOnce =
  (parts: Parts) =>
  (request: FastifyRequest): AdmitAtOnce => {
    const account = parts.accounts.of(request)
    return () => admit(parts, account)
  }

function admit({ here, monthAt, now, monotonic }: Parts, account: Bucket): string | null {
  const { general, windows, delayQueue, quotas, isEvicted } = account
  const atMs = now()
  const window = general && windows[general.slot]
  if (isEvicted || window === undefined) return null
  if (window !== null && (window.limit !== general || isOver(window, atMs) || window.used >= general.calls)) return null
  const month = monthAt(atMs)
  const quota = quotas?.requests ?? null
  if (quota !== null && (quota.period !== month.name || quotaLeft(quota) === 0)) return null
  if (delayQueue !== null) {
    const monotonicMs = monotonic()
    if (!isFree(delayQueue, monotonicMs)) return null
    reserve(delayQueue, monotonicMs)
  }
  // With several threads, another one may have used up the limit since; the other policies then refuse the request.
  const counted = general && consume(account, general, atMs)
  if ((counted !== null && isExceeded(counted)) || (quota !== null && !here.take(quota))) return null
  return (counted === null ? '' : rateLimitLines(counted, atMs)) + (quota === null ? '' : quotaLines(quota, month))
}
