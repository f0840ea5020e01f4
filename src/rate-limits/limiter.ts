import type { FastifyReply, FastifyRequest } from 'fastify'
import { isPreflight } from '../http/policies/cors.ts'
import { routeConfig } from '../http/route-config.ts'
import { accounts } from './account.ts'
import { type AdmissionContext, giveBack } from './context.ts'
import { type Counters, type Limit, type LimitName, limitOf, type Rate } from './limit.ts'
import { admitHere } from './local.ts'
import type { Parts } from './parts.ts'
import { calendar, type QuotaSettings, quotasHere } from './quota.ts'
import { admitShared } from './shared.ts'
import { type Pace, type ThrottleOptions, throttle } from './throttle.ts'
import { type Usage, usages } from './usage.ts'

/** What clients may do; null is without a limit. */
export interface LimitRules extends Record<LimitName, Rate | null> {
  general: Rate | null
  /** Of each network, for requests without a good token or key. */
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
  /** Is told when quotas cannot be saved or shared counters are out of reach. */
  onError: (error: unknown) => void
}

/** Counts requests and decides which go on, which wait and which are refused. */
export interface Limiter {
  admit: (request: FastifyRequest, reply: FastifyReply, done: AdmissionContext['done']) => void
  /** Takes back what an admitted request has used of quotas, all of it or its report; what is told of them, too. */
  giveBack: (request: FastifyRequest, reply: FastifyReply, what?: 'all' | 'report') => void
  /** What the caller of a request may use and has used; counts nothing. */
  usage: (request: FastifyRequest) => Promise<Usage>
  /** Lets those go on who wait. */
  release: () => void
  /** Saves what was used. */
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
    accounts: accounts(who),
    here: quotasHere({ record: counters.record, later, onError }),
    lines: throttle({ monotonic, later }),
    monthAt: calendar(),
    ...{ counters, now, monotonic, onError },
  }
}

/**
 * Makes the judge of how much is too much, in the order: window (429), quota (403), throttle (a delay, or 429). Where this
 * process counts alone everything is decided in the same turn, without a promise.
 */
export function limiter(options: LimiterOptions): Limiter {
  const parts = partsOf(options)
  const { here, lines, counters } = parts
  const usage = usages(parts)
  const admit = counters.shared === null ? admitHere : admitShared
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
