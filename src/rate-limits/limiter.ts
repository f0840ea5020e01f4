import type { FastifyReply, FastifyRequest } from 'fastify'
import { isPreflight } from '../http/policies/cors.ts'
import { routeConfig } from '../http/route-config.ts'
import { buckets } from './account.ts'
import { admitAtOnce } from './at-once.ts'
import { calendar } from './calendar.ts'
import { type AdmissionContext, type Parts, refund } from './context.ts'
import { type Counters, type Limit, type LimitName, limitOf, type Rate } from './limit.ts'
import { admitLocally } from './local.ts'
import { admitMore } from './more-calls.ts'
import { localQuotas, type QuotaSettings } from './quota.ts'
import { admitShared } from './shared.ts'
import { type LimitMemory, limitCells } from './threads/limit-cells.ts'
import { type Pace, type ThrottleOptions, throttle } from './throttle.ts'
import { type Usage, usages } from './usage.ts'

/** The rate limits and quotas for clients; null means unlimited. */
export interface LimitRules extends Record<LimitName, Rate | null> {
  general: Rate | null
  /** The limit per network, for requests without a valid token or API key. */
  anonymous: Rate | null
  throttle: Pace | null
  quotas: QuotaSettings
}

export interface LimiterOptions extends ThrottleOptions {
  rules: LimitRules
  counters: Counters
  /** The memory in which the threads of this process count calls; null if there is only one thread. */
  memory?: LimitMemory | null
  trustedProxies: readonly string[]
  /** Milliseconds since the epoch. */
  now: () => number
  /** Called for each request refused by a limit (`default`, `quota_requests`, `pace`, …). */
  onLimited?: (limit: string) => void
  /** Called for each delayed request when it continues. */
  onDelayed?: (ms: number) => void
  /** Called if saving quotas or refunding a call fails. */
  onError: (error: unknown) => void
}

/** The rate limiter. It counts requests and decides whether each request continues, waits or is refused. */
export interface Limiter {
  rules: LimitRules
  admit: (request: FastifyRequest, reply: FastifyReply, done: AdmissionContext['done']) => void
  /** Counts additional calls for an admitted request. Rejects with a `Problem` if a limit is exceeded. */
  admitMore: (request: FastifyRequest, reply: FastifyReply, calls: number) => Promise<void>
  /** Refunds an admitted request's quotas, or only its report quota, and updates the quota headers. */
  refund: (request: FastifyRequest, reply: FastifyReply, what?: 'all' | 'report') => void
  /** Returns the caller's limits and usage; does not count as a call. */
  usage: (request: FastifyRequest) => Promise<Usage>
  /** Counts requests that take the fast path; null if other processes share the counters. */
  admitAtOnce: ReturnType<typeof admitAtOnce> | null
  /** Lets all waiting requests continue. */
  release: () => void
  /** Saves pending usage. */
  close: () => Promise<void>
}

const limitIfSet = (name: string, rate: Rate | null): Limit | null => (rate === null ? null : limitOf(name, rate))

function partsOf(options: LimiterOptions): Parts {
  const { rules, counters, memory = null, trustedProxies, now, monotonic, later, onError } = options
  const { onLimited = () => {}, onDelayed = () => {} } = options
  const [general, anonymous] = [limitIfSet('default', rules.general), limitIfSet('default', rules.anonymous)]
  const cellsOf = memory && limitCells({ memory, now, monotonic })
  const who = { cellsOf, general, anonymous, pace: rules.throttle, quotas: rules.quotas, trustedProxies, now }
  return {
    rules: {
      reports: limitIfSet('reports', rules.reports),
      webhooks: limitIfSet('webhooks', rules.webhooks),
      token: limitIfSet('token', rules.token),
    },
    accounts: buckets(who),
    here: localQuotas({ record: counters.record, later, onError }),
    delays: throttle({ monotonic, later }),
    monthAt: calendar(),
    ...{ counters, now, monotonic, onError, onLimited, onDelayed },
  }
}

/**
 * Creates the limiter. It checks the window (429), then the quota (403), then the throttle (a delay, or 429). If no
 * other process shares the counters, the decision is synchronous and needs no promise.
 */
export function limiter(options: LimiterOptions): Limiter {
  const parts = partsOf(options)
  const { here, delays, counters } = parts
  const usage = usages(parts)
  const admit = counters.shared === null ? admitLocally : admitShared
  return {
    rules: options.rules,
    admit: (request, reply, done) => {
      const { limit } = routeConfig(request)
      if (limit === 'none' || isPreflight(request)) done()
      else {
        const account = limit === 'token' ? parts.accounts.ofNetwork(request) : parts.accounts.of(request)
        admit(parts, { request, reply, done, account, own: limit === undefined ? null : parts.rules[limit] })
      }
    },
    admitMore: (request, reply, calls) =>
      admitMore(parts, admit, { request, reply, account: parts.accounts.of(request) }, calls),
    refund: (request, reply, what) => {
      if (routeConfig(request).limit === 'none') return
      refund(parts, { request, account: parts.accounts.of(request) }, reply, what)
    },
    usage: (request) => usage(parts.accounts.of(request)),
    admitAtOnce: counters.shared === null ? admitAtOnce(parts) : null,
    release: delays.release,
    close: here.close,
  }
}
