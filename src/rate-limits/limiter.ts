import type { FastifyReply, FastifyRequest } from 'fastify'
import { isPreflight } from '../http/policies/cors.ts'
import { routeConfig } from '../http/route-config.ts'
import { buckets } from './account.ts'
import { type AdmissionContext, giveBack } from './context.ts'
import { type Counters, type Limit, type LimitName, limitOf, type Rate } from './limit.ts'
import { admitLocally } from './local.ts'
import type { Parts } from './parts.ts'
import { calendar, localQuotas, type QuotaSettings } from './quota.ts'
import { admitShared } from './shared.ts'
import { type Pace, type ThrottleOptions, throttle } from './throttle.ts'
import { type Usage, usages } from './usage.ts'

/** The limits of clients; null means unlimited. */
export interface LimitRules extends Record<LimitName, Rate | null> {
  general: Rate | null
  /** Per network, for requests without a valid token or API key. */
  anonymous: Rate | null
  throttle: Pace | null
  quotas: QuotaSettings
}

export interface LimiterOptions extends ThrottleOptions {
  rules: LimitRules
  counters: Counters
  trustedProxies: readonly string[]
  /** Milliseconds since the epoch. */
  now: () => number
  /** Called when quotas cannot be saved or shared counters are unavailable. */
  onError: (error: unknown) => void
}

/** Counts requests and decides which continue, which wait and which are refused. */
export interface Limiter {
  admit: (request: FastifyRequest, reply: FastifyReply, done: AdmissionContext['done']) => void
  /** Gives quota of an admitted request back, all of it or only its report, and updates the quota headers. */
  giveBack: (request: FastifyRequest, reply: FastifyReply, what?: 'all' | 'report') => void
  /** Limits and usage of the caller; does not count as a call. */
  usage: (request: FastifyRequest) => Promise<Usage>
  /** Lets all waiting requests continue. */
  release: () => void
  /** Saves pending usage. */
  close: () => Promise<void>
}

const named = (name: string, rate: Rate | null): Limit | null => (rate === null ? null : limitOf(name, rate))

function partsOf(options: LimiterOptions): Parts {
  const { rules, counters, trustedProxies, now, monotonic, later, onError } = options
  const [general, anonymous] = [named('default', rules.general), named('default', rules.anonymous)]
  const who = { general, anonymous, pace: rules.throttle, quotas: rules.quotas, trustedProxies, now }
  return {
    rules: {
      reports: named('reports', rules.reports),
      webhooks: named('webhooks', rules.webhooks),
      token: named('token', rules.token),
    },
    accounts: buckets(who),
    here: localQuotas({ record: counters.record, later, onError }),
    lines: throttle({ monotonic, later }),
    monthAt: calendar(),
    ...{ counters, now, monotonic, onError },
  }
}

/**
 * Makes the limiter. It checks in this order: window (429), quota (403), throttle (a delay, or 429). When only this process
 * counts, the decision is synchronous, without a promise.
 */
export function limiter(options: LimiterOptions): Limiter {
  const parts = partsOf(options)
  const { here, lines, counters } = parts
  const usage = usages(parts)
  const admit = counters.shared === null ? admitLocally : admitShared
  return {
    admit: (request, reply, done) => {
      const { limit } = routeConfig(request)
      if (limit === 'none' || isPreflight(request)) done()
      else {
        const account = limit === 'token' ? parts.accounts.ofNetwork(request) : parts.accounts.of(request)
        admit(parts, { request, reply, done, account, own: limit === undefined ? null : parts.rules[limit] })
      }
    },
    giveBack: (request, reply, what) => {
      if (routeConfig(request).limit === 'none') return
      giveBack(parts, { request, account: parts.accounts.of(request) }, reply, what)
    },
    usage: (request) => usage(parts.accounts.of(request)),
    release: lines.release,
    close: here.close,
  }
}
