import type { Bucket } from './account.ts'
import { type AdmissionContext, limitProblem, type Parts, proceed, quotaProblem, quotasOf } from './context.ts'
import { consumeLocal, tighter, type Window, windowOf } from './fixed-window.ts'
import { setQuotaHeaders } from './headers.ts'
import type { Counters, Limit } from './limit.ts'
import type { Allowance } from './quota.ts'

/** Admits a request when several processes share the counters. */
export function admitShared(parts: Parts, context: AdmissionContext): void {
  evaluate(parts, context).then((next) => next(), context.done)
}

const sharedOf = ({ counters }: Parts) => counters.shared as NonNullable<Counters['shared']>

/** Counts in the shared stores; returns the next step, which the caller must run exactly once. */
async function evaluate(parts: Parts, context: AdmissionContext): Promise<() => void> {
  const { account, own } = context
  const both = [take(parts, account, account.general), take(parts, account, own)] as const
  const [general, ofOwn] = await Promise.all(both)
  const refusal = limitProblem(parts, context, tighter(general, ofOwn), parts.now())
  return refusal === null ? charge(parts, context) : () => context.done(refusal)
}

/**
 * Counts one call in the shared store; if the store is unavailable, counts in this process, starting from the last
 * known count. Returns a copy of the window, because other requests modify the original.
 */
async function take(parts: Parts, account: Bucket, limit: Limit | null): Promise<Window | null> {
  if (limit === null) return null
  const { windows, strictWindows } = sharedOf(parts)
  const store = limit.isStrict ? strictWindows : windows
  try {
    const { used, endsAtMs } = await store.add(`${account.key} ${limit.name}`, limit.seconds)
    const window = windowOf(limit, used, endsAtMs)
    account.windows[limit.slot] = window
    return { ...window }
  } catch {
    return { ...consumeLocal(account.windows, limit, parts.now()) }
  }
}

async function charge(parts: Parts, context: AdmissionContext): Promise<() => void> {
  const { quotas: store } = sharedOf(parts)
  const month = parts.monthAt(parts.now())
  const { requests, reports } = quotasOf(context)
  const taken: Allowance[] = []
  // A failed refund is reported and does not affect the response.
  const refund = () => Promise.all(taken.splice(0).map((one) => store.back(one.key, month.name))).catch(parts.onError)
  let exceeded: Allowance | undefined
  try {
    for (const one of [requests, reports]) {
      if (one === null || exceeded !== undefined) continue
      const { used, isGranted } = await store.take(one.key, month.name, one.limit)
      Object.assign(one, { used, period: month.name })
      if (isGranted) taken.push(one)
      else exceeded = one
    }
  } catch (error) {
    await refund()
    throw error
  }
  setQuotaHeaders(context.reply, requests, reports, month)
  if (exceeded === undefined) return () => proceed(parts, context)
  await refund()
  const refusal = quotaProblem(parts, exceeded, month)
  return () => context.done(refusal)
}
