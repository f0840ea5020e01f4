import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { Bucket } from './account.ts'
import type { Parts } from './context.ts'
import { remainingOf, type Window, windowOf } from './fixed-window.ts'
import type { Limit } from './limit.ts'
import { type Allowance, quotaLeft } from './quota.ts'
import { peek } from './threads/window-cell.ts'

const natural = { minimum: 0 }
const reset = Type.Integer({ ...natural, description: 'When the count restarts, in epoch seconds' })

const RateUsage = Type.Object({
  name: Type.String({ description: 'Name of the limit, as in the RateLimit header', examples: ['default'] }),
  limit: Type.Integer({ ...natural, description: 'Maximum number of calls per window', examples: [6000] }),
  windowSeconds: Type.Integer({ minimum: 1, examples: [60] }),
  used: Type.Integer(natural),
  remaining: Type.Integer(natural),
  reset,
})

/** The use of a quota in the current month. */
export const QuotaUsage = Type.Object({
  name: Type.String({ enum: ['requests', 'reports'] }),
  limit: Type.Integer({ ...natural, description: 'Maximum number per calendar month (UTC)', examples: [10_000_000] }),
  used: Type.Integer(natural),
  remaining: Type.Integer(natural),
  reset,
})

const UsageView = Type.Object({
  countedBy: Type.String({
    enum: ['key', 'client'],
    // In a generated Go client, a constant named `Client` would conflict with the type of the client itself.
    'x-enum-varnames': ['CountedByKey', 'CountedByClient'],
    description: 'Whether calls count for the API key, or for the client and subject of the token',
  }),
  rates: Type.Array(RateUsage, { description: 'Limits per time window; those missing are off' }),
  quotas: Type.Array(QuotaUsage, { description: 'Limits per month; those missing are off' }),
})

export type Usage = Static<typeof UsageView>

const cacheMs = 1_000

/**
 * Returns a function that reports an account's limits and usage. If the counters are shared between processes, an
 * account's concurrent requests share one result, which is then cached for a second: this operation is not
 * rate-limited, so it must not be able to overload the stores.
 */
export function usages(parts: Parts): (account: Bucket) => Promise<Usage> {
  const { counters, monotonic } = parts
  if (counters.shared === null) return (account) => usageOf(parts, account)
  const kept = new WeakMap<Bucket, { usage: Promise<Usage>; untilMs: number }>()
  return (account) => {
    const before = kept.get(account)
    if (before !== undefined && monotonic() < before.untilMs) return before.usage
    const usage = usageOf(parts, account)
    const look = { usage, untilMs: Number.POSITIVE_INFINITY }
    kept.set(account, look)
    usage.then(
      () => {
        look.untilMs = monotonic() + cacheMs
      },
      () => kept.delete(account),
    )
    return usage
  }
}

async function usageOf(parts: Parts, account: Bucket): Promise<Usage> {
  const { rules, monthAt, now } = parts
  const { reports, webhooks } = rules
  const limits = [account.general, reports, webhooks].filter((limit) => limit !== null)
  const windows = await Promise.all(limits.map((limit) => look(parts, account, limit)))
  const month = monthAt(now())
  const allowances = [account.quotas?.requests, account.quotas?.reports].filter((one) => one != null)
  for (const one of allowances) await refresh(parts, one)
  return {
    countedBy: account.kind === 'key' ? 'key' : 'client',
    rates: windows.map((window) => {
      const { limit, resetsAt } = window
      const left = remainingOf(window)
      return {
        ...{ name: limit.name, limit: limit.calls, windowSeconds: limit.seconds },
        ...{ used: limit.calls - left, remaining: left, reset: resetsAt },
      }
    }),
    quotas: allowances.map((one) => ({
      ...{ name: one.name, limit: one.limit, used: one.limit - quotaLeft(one), remaining: quotaLeft(one) },
      reset: month.resetsAt,
    })),
  }
}

async function look({ counters: { shared }, now }: Parts, account: Bucket, limit: Limit): Promise<Window> {
  if (shared === null) return peek(account, limit, now())
  try {
    const found = await shared.windows.look(`${account.key} ${limit.name}`)
    return windowOf(limit, found?.used ?? 0, found?.endsAtMs ?? now() + limit.windowMs)
  } catch {
    return peek(account, limit, now())
  }
}

async function refresh({ counters: { shared }, here, monthAt, now }: Parts, one: Allowance): Promise<void> {
  const month = monthAt(now())
  if (shared === null) return here.open(one, month)
  Object.assign(one, { used: await shared.quotas.look(one.key, month.name), period: month.name })
}

/** The response from a service without limits. */
const unlimited: Usage = { countedBy: 'client', rates: [], quotas: [] }

interface UsageOptions {
  /** Returns the caller's limits and usage. If omitted, there are no limits. */
  limiter?: { usage: (request: FastifyRequest) => Promise<Usage> }
}

/** Serves GET /api/usage: the caller's limits and usage, for any valid token. The request itself is not counted. */
export const usageRoute: FastifyPluginAsyncTypebox<UsageOptions> = async (app, { limiter }) => {
  const about = {
    tags: ['limits'],
    operationId: 'readUsage',
    summary: 'Read the limits that apply to the caller and their usage',
  }
  const config = { scope: 'any', cache: 'none', limit: 'none' } as const
  app.get('/api/usage', { config, schema: { ...about, response: { 200: UsageView } } }, async (request) =>
    limiter ? limiter.usage(request) : unlimited,
  )
}
