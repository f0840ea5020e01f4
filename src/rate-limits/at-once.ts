import type { FastifyRequest } from 'fastify'
import type { Bucket } from './account.ts'
import type { Parts } from './context.ts'
import { isExceeded, isOver } from './fixed-window.ts'
import { quotaLines, rateLimitLines } from './headers.ts'
import { quotaLeft } from './quota.ts'
import { consume } from './threads/window-cell.ts'
import { isFree, reserve } from './throttle.ts'

/**
 * The fast path of `admitLocally`: counts a request and returns its limit headers if it can be admitted without delay.
 * Returns null if the request needs the full check.
 */
export type AdmitAtOnce = () => string | null

/**
 * Returns the fast path for the account of this request. Use it only for reads without a limit of their own, and only
 * if no other process shares the counters.
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
  // Another thread may have used up the limit in the meantime. The full check then refuses the request.
  const counted = general && consume(account, general, atMs)
  if ((counted !== null && isExceeded(counted)) || (quota !== null && !here.take(quota))) return null
  return (counted === null ? '' : rateLimitLines(counted, atMs)) + (quota === null ? '' : quotaLines(quota, month))
}
