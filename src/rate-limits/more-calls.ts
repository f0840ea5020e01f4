import { type AdmissionContext, type Parts, refund } from './context.ts'

type Admit = (parts: Parts, context: AdmissionContext) => void

/**
 * Counts additional calls for an admitted request, such as a batch, without delaying it. If a call exceeds a limit,
 * refunds the quotas of the request and of all additional calls, and rejects with the problem.
 */
export async function admitMore(
  parts: Parts,
  admit: Admit,
  context: Pick<AdmissionContext, 'request' | 'reply' | 'account'>,
  calls: number,
): Promise<void> {
  let limited: string | undefined
  // A refused request is reported once, however many of its calls exceed the limit.
  const once: Parts = {
    ...parts,
    onLimited: (limit) => {
      limited ??= limit
    },
  }
  const call = () =>
    new Promise<void>((resolve, reject) => {
      const done = (error?: Error) => (error ? reject(error) : resolve())
      admit(once, { ...context, own: null, isPaced: false, done })
    })
  const counted = await Promise.allSettled(Array.from({ length: calls }, call))
  if (limited !== undefined) parts.onLimited(limited)
  const refused = counted.find((one) => one.status === 'rejected')
  if (refused === undefined) return
  const granted = counted.filter(({ status }) => status === 'fulfilled').length
  for (let back = 0; back <= granted; back++) refund(parts, context, context.reply)
  throw refused.reason
}
