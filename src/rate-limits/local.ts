import type { Month } from './calendar.ts'
import { type AdmissionContext, limitProblem, type Parts, proceed, quotaProblem, quotasOf } from './context.ts'
import { tighter } from './fixed-window.ts'
import { setQuotaHeaders } from './headers.ts'
import { consume } from './threads/window-cell.ts'

/** Admits a request when no other process shares the counters; synchronous once the month's usage is loaded. */
export function admitLocally(parts: Parts, context: AdmissionContext): void {
  const { account, own } = context
  const atMs = parts.now()
  const general = account.general && consume(account, account.general, atMs)
  const tight = own === null ? general : tighter(general, consume(account, own, atMs))
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
  const exceeded = [requests, reports].find((one) => one !== null && !parts.here.take(one)) ?? null
  if (exceeded !== null && exceeded === reports && requests !== null) parts.here.giveBack(requests)
  setQuotaHeaders(context.reply, requests, reports, month)
  if (exceeded === null) proceed(parts, context)
  else context.done(quotaProblem(parts, exceeded, month))
}
