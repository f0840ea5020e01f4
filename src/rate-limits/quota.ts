import type { Month } from './calendar.ts'
import { quotaStart } from './header-lines.ts'
import type { QuotaRecord, Use } from './limit.ts'
import type { Cell } from './threads/cells.ts'
import type { AccountCells } from './threads/limit-cells.ts'
import { changeCell, firstUse, takeFromCell } from './threads/quota-cell.ts'

/** The number of requests and reports allowed per month; null means unlimited. */
export interface QuotaSettings {
  requests: number | null
  reports: number | null
}

export interface Allowances {
  requests: Allowance | null
  reports: Allowance | null
}

/** An account's quota for a month, and the usage known to this process. */
export interface Allowance {
  key: string
  name: 'requests' | 'reports'
  limit: number
  /** The beginning of the quota's header lines. */
  quotaStart: string
  /** The month to which `used` belongs; empty until the usage is loaded. */
  period: string
  used: number
  /** The count shared by all threads of the process; null if there is only one thread. */
  cell: Cell | null
  /** Number of calls not yet saved to the database. */
  unsaved: number
}

function allowance(
  account: string,
  name: Allowance['name'],
  limit: number | null,
  cells: AccountCells | null,
): Allowance | null {
  if (limit === null) return null
  const fixed = { key: `${account} ${name}`, name, limit, quotaStart: quotaStart(limit) }
  return { ...fixed, cell: cells?.quota(name) ?? null, period: '', used: 0, unsaved: 0 }
}

/** An account's quotas; `ofRequests` applies to all requests except report requests. */
export interface AccountAllowances extends Allowances {
  ofRequests: Allowances
}

/** Returns an account's quotas. The account's own request quota, if any, overrides the service's. */
export function allowanceOf(
  account: string,
  settings: QuotaSettings,
  own: number | null,
  cells: AccountCells | null = null,
): AccountAllowances {
  const requests = allowance(account, 'requests', own ?? settings.requests, cells)
  const reports = allowance(account, 'reports', settings.reports, cells)
  return { requests, reports, ofRequests: { requests, reports: null } }
}

/** Applies a changed request quota, and keeps all usage counted so far, both saved and unsaved. */
export function allowancesNow(before: AccountAllowances, now: AccountAllowances): AccountAllowances {
  if (before.requests?.limit === now.requests?.limit) return before
  if (before.requests && now.requests) {
    const { limit, quotaStart } = now.requests
    Object.assign(before.requests, { limit, quotaStart })
    return before
  }
  return { ...now, reports: before.reports }
}

export const quotaLeft = ({ limit, used }: Allowance): number => (used < limit ? limit - used : 0)

export interface QuotasHereOptions {
  record: QuotaRecord
  /** Runs a callback after `ms`; returns a function that cancels it. */
  later: (ms: number, run: () => void) => () => void
  onError: (error: unknown) => void
}

/** Counts quota usage in this process. Loads usage on first use; saves it every second and on close. */
export function localQuotas(options: QuotasHereOptions) {
  const { record } = options
  const saver = batchedSaves(options)
  const begin = (one: Allowance, period: string, used: number) => {
    if (one.period === period) return
    if (one.unsaved > 0) saver.keep([one.key, one.period, one.unsaved])
    const known = used + saver.left(one.key, period)
    Object.assign(one, { period, used: one.cell ? firstUse(one.cell, period, known) : known, unsaved: 0 })
  }
  return {
    /** Loads the month's usage; synchronous if it is already loaded or the database is synchronous. */
    open: (one: Allowance, month: Month): undefined | Promise<void> => {
      if (one.period === month.name) return
      const used = record.look(one.key, month.name)
      if (used instanceof Promise) return used.then((found) => begin(one, month.name, found))
      begin(one, month.name, used)
      return undefined
    },
    /** Takes a call from a quota whose usage is loaded; returns false if the quota is used up. */
    take: (one: Allowance): boolean => {
      if (!(one.cell ? takeFromCell(one, one.cell) : quotaLeft(one) > 0 && ++one.used)) return false
      one.unsaved++
      saver.save(one)
      return true
    },
    /** Refunds a call to a quota whose usage is loaded. */
    giveBack: (one: Allowance): void => {
      one.used = one.cell ? changeCell(one, one.cell, -1) : one.used - 1
      one.unsaved--
      saver.save(one)
    },
    close: saver.close,
  }
}

const saveEveryMs = 1_000

/** Saves changes once a second. Failed saves are retried until `close` is called. */
function batchedSaves({ record, later, onError }: QuotasHereOptions) {
  const changed = new Set<Allowance>()
  const left = new Map<string, Use>()
  let cancel: (() => void) | null = null
  let isClosed = false
  let saving = Promise.resolve()
  const keep = ([key, period, calls]: Use) => {
    const before = left.get(`${key} ${period}`)?.[2] ?? 0
    left.set(`${key} ${period}`, [key, period, before + calls])
  }
  const saveNow = async () => {
    const own = [...changed]
    const uses = [...own.map(({ key, period, unsaved }): Use => [key, period, unsaved]), ...left.values()]
    changed.clear()
    left.clear()
    for (const one of own) one.unsaved = 0
    if (uses.length === 0) return
    try {
      const sums = await record.add(uses)
      own.forEach((one, at) => {
        // Other processes may have added to the total. A cell already contains the calls of all threads, saved or not.
        if (one.cell === null && one.period === uses[at]?.[1]) one.used = (sums[at] as number) + one.unsaved
      })
    } catch (error) {
      for (const use of uses) keep(use)
      arm()
      onError(error)
    }
  }
  const saveSerially = () => {
    cancel = null
    saving = saving.then(saveNow)
    return saving
  }
  const arm = () => {
    if (!isClosed) cancel ??= later(saveEveryMs, saveSerially)
  }
  return {
    keep,
    /** Returns the calls of a period that are still unsaved because a new period began or saving failed. */
    left: (key: string, period: string): number => left.get(`${key} ${period}`)?.[2] ?? 0,
    save: (one: Allowance) => {
      changed.add(one)
      arm()
    },
    close: () => {
      isClosed = true
      cancel?.()
      return saveSerially()
    },
  }
}
