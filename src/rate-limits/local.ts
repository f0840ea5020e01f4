import { type AdmissionContext, limitProblem, proceed, quotasOf } from './context.ts'
import { consumeLocal, tighter } from './fixed-window.ts'
import { quotaExceeded, tellQuota } from './headers.ts'
import type { Parts } from './parts.ts'
import { type Allowance, type Month, quotaLeft } from './quota.ts'

/** Admits a request when only this process counts; synchronous once the month's usage is loaded. */
export function admitLocally(parts: Parts, way: AdmissionContext): void {
  const { account, own } = way
  const atMs = parts.now()
  const general = account.general && consumeLocal(account.windows, account.general, atMs)
  const tight = own === null ? general : tighter(general, consumeLocal(account.windows, own, atMs))
  const refusal = limitProblem(way, tight, atMs)
  if (refusal === null) judgeQuotas(parts, way, atMs)
  else way.done(refusal)
}

function judgeQuotas(parts: Parts, way: AdmissionContext, atMs: number): void {
  const { requests, reports } = quotasOf(way)
  const month = parts.monthAt(atMs)
  const opening = requests && parts.here.open(requests, month)
  const others = reports && parts.here.open(reports, month)
  if (!opening && !others) use(parts, way, month)
  else Promise.all([opening, others]).then(() => use(parts, way, month), way.done)
}

function use(parts: Parts, way: AdmissionContext, month: Month): void {
  const { requests, reports } = quotasOf(way)
  const exceeded = isUsedUp(requests) ? requests : isUsedUp(reports) ? reports : null
  if (exceeded === null) {
    if (requests !== null) parts.here.use(requests, 1)
    if (reports !== null) parts.here.use(reports, 1)
  }
  tellQuota(way.reply, requests, reports, month)
  if (exceeded === null) proceed(parts, way)
  else way.done(quotaExceeded(exceeded, month))
}

const isUsedUp = (one: Allowance | null): boolean => one !== null && quotaLeft(one) === 0
