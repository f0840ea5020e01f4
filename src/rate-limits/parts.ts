import type { Accounts } from './account.ts'
import type { Counters, Limit, LimitName } from './limit.ts'
import type { calendar, localQuotas } from './quota.ts'
import type { throttle } from './throttle.ts'

/** Dependencies shared by the admission steps. */
export interface Parts {
  rules: Record<LimitName, Limit | null>
  accounts: Accounts
  counters: Counters
  here: ReturnType<typeof localQuotas>
  delays: ReturnType<typeof throttle>
  monthAt: ReturnType<typeof calendar>
  now: () => number
  monotonic: () => number
  onError: (error: unknown) => void
}
