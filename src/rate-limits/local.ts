import { type AdmissionContext, limitProblem, type Parts, proceed, quotaProblem, quotasOf } from './context.ts'
import { consumeLocal, tighter } from './fixed-window.ts'
import { setQuotaHeaders } from './headers.ts'
import { type Allowance, type Month, quotaLeft } from './quota.ts'

/** Admits a request when no other process shares the counters; synchronous once the month's usage is loaded. */
export function admitLocally(parts: Parts, context: AdmissionContext): void {
  const { account, own } = context
  const atMs = parts.now()
  const general = account.general && consumeLocal(account.windows, account.general, atMs)
  const tight = own === null ? general : tighter(general, consumeLocal(account.windows, own, atMs))
  const refusal = limitProblem(parts, context, tight, atMs)
  if (refusal === null) checkQuotas(parts, context, atMs)
  else context.done(refusal)
}

function checkQuotas(parts: Parts, context: AdmissionContext, atMs: number): void {
  const { requests, reports } = quotasOf(context)
  const month = parts.monthAt(atMs)
  const opening = requests && parts.here.open(requests, month)
  const others = reports && parts.here.open(reports, month)
  if (!opening && !others) charge(parts, context, month)
  else Promise.all([opening, others]).then(() => charge(parts, context, month), context.done)
}

function charge(parts: Parts, context: AdmissionContext, month: Month): void {
  const { requests, reports } = quotasOf(context)
  const exceeded = isUsedUp(requests) ? requests : isUsedUp(reports) ? reports : null
  if (exceeded === null) {
    if (requests !== null) parts.here.use(requests, 1)
    if (reports !== null) parts.here.use(reports, 1)
  }
  setQuotaHeaders(context.reply, requests, reports, month)
  if (exceeded === null) proceed(parts, context)
  else context.done(quotaProblem(parts, exceeded, month))
}

const isUsedUp = (one: Allowance | null): boolean => one !== null && quotaLeft(one) === 0
