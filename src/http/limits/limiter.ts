import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Account, type Accounts, accounts } from './account.ts'
import { type Limit, type LimitName, limitOf, type Rate } from './limit.ts'
import { calendar } from './month.ts'
import { type Allowance, type QuotaSettings, quotaLeft, quotasHere } from './quota.ts'
import { quotaExceeded, rateExceeded, tellQuota, tellRate } from './rate-headers.ts'
import type { Counters } from './stores.ts'
import { lineIsFull, type Pace, placeIn, type ThrottleOptions, throttle } from './throttle.ts'
import { type Usage, usageOf } from './usage.ts'
import { isExceeded, takeHere, tighter, type Window, windowOf } from './windows.ts'

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

type Done = (error?: Error) => void

/** Counts requests and decides which go on, which wait and which are refused. */
export interface Limiter {
  admit: (request: FastifyRequest, reply: FastifyReply, done: Done) => void
  /** What the caller of a request may use and has used; counts nothing. */
  usage: (request: FastifyRequest) => Promise<Usage>
  /** Lets those go on who wait. */
  release: () => void
  /** Saves what was used. */
  close: () => Promise<void>
}

/** Everything that the steps of a request's way share. */
export interface Parts {
  rules: Record<LimitName, Limit | null>
  accounts: Accounts
  counters: Counters
  here: ReturnType<typeof quotasHere>
  lines: ReturnType<typeof throttle>
  monthAt: ReturnType<typeof calendar>
  now: () => number
  monotonic: () => number
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
    ...{ counters, now, monotonic },
  }
}

/**
 * Makes the judge of how much is too much, in the order: window (429), quota (403), throttle (a delay, or 429). Where this
 * process counts alone everything is decided in the same turn, without a promise.
 */
export function limiter(options: LimiterOptions): Limiter {
  const parts = partsOf(options)
  const { here, lines, counters } = parts
  const admit = counters.shared === null ? admitHere : admitShared
  return {
    admit: (request, reply, done) => {
      const { limit } = request.routeOptions.config
      if (limit === 'none') return done()
      const account = limit === 'token' ? parts.accounts.ofNetwork(request) : parts.accounts.of(request)
      admit(parts, { request, reply, done, account, own: limit === undefined ? null : parts.rules[limit] })
    },
    usage: (request) => usageOf(parts, parts.accounts.of(request)),
    release: lines.release,
    close: here.close,
  }
}

/** One request on its way. */
interface Way {
  request: FastifyRequest
  reply: FastifyReply
  done: Done
  account: Account
  /** The limit of the operation itself. */
  own: Limit | null
}

function admitHere(parts: Parts, way: Way): void {
  const { account, own } = way
  const atMs = parts.now()
  const general = account.general && takeHere(account.windows, account.general, atMs)
  const ofOwn = own && takeHere(account.windows, own, atMs)
  if (!passes(way, tighter(general, ofOwn), atMs)) return
  const [requests, reports] = quotasOf(way)
  const month = parts.monthAt(atMs)
  const opening = [requests, reports].map((one) => one && parts.here.open(one, month)).filter(Boolean)
  if (opening.length > 0) void Promise.all(opening).then(() => useHere(parts, way, requests, reports), way.done)
  else useHere(parts, way, requests, reports)
}

/** Headers and refusal of the windows; what nothing is found at goes on to its 404 or 405. */
function passes({ request, reply, account, own, done }: Way, tight: Window | null, atMs: number): boolean {
  if (tight === null) return true
  tellRate(reply, tight, account.general, own, atMs)
  if (request.is404 || !isExceeded(tight)) return true
  done(rateExceeded(tight, atMs))
  return false
}

type Quotas = [requests: Allowance | null, reports: Allowance | null]

/** The quotas that a request uses: none where it is refused for want of a token, or where nothing is found. */
function quotasOf({ request, account }: Way): Quotas {
  const { quotas } = account
  if (quotas === null || request.is404) return [null, null]
  if (request.caller === null && request.routeOptions.config.scope !== 'public') return [null, null]
  return [quotas.requests, request.routeOptions.config.limit === 'reports' ? quotas.reports : null]
}

function useHere(parts: Parts, way: Way, requests: Allowance | null, reports: Allowance | null): void {
  const month = parts.monthAt(parts.now())
  const used = [requests, reports].find((one) => one !== null && quotaLeft(one) === 0)
  if (!used) {
    if (requests) parts.here.use(requests, 1)
    if (reports) parts.here.use(reports, 1)
  }
  tellQuota(way.reply, requests, reports, month)
  if (used) return way.done(quotaExceeded(used, month))
  goOn(parts, way, () => {
    if (requests) parts.here.use(requests, -1)
    if (reports) parts.here.use(reports, -1)
  })
}

/** The last step: on to the handler, now or in turn. */
function goOn({ monotonic, lines }: Parts, { request, reply, done, account }: Way, giveBack: () => void): void {
  const { line } = account
  if (line === null) return done()
  const atMs = monotonic()
  const place = placeIn(line, atMs)
  if (place === 'free') return done()
  if (place === 'full') {
    giveBack()
    return done(request.is404 ? undefined : lineIsFull())
  }
  const leave = lines.wait(line, place.dueMs, () => {
    request.raw.off('close', leave)
    reply.header('server-timing', `throttle;dur=${Math.max(0, Math.round(monotonic() - atMs))}`)
    done()
  })
  request.raw.once('close', leave)
}

/** Counts one call where all processes count; in this one while they cannot. */
async function takeShared({ counters, now }: Parts, account: Account, limit: Limit | null): Promise<Window | null> {
  if (limit === null) return null
  const { windows, strictWindows } = counters.shared as NonNullable<Counters['shared']>
  const store = limit.isStrict ? strictWindows : windows
  try {
    const { used, endsAtMs } = await store.add(`${account.key} ${limit.name}`, limit.seconds)
    return windowOf(limit, used, endsAtMs)
  } catch {
    return takeHere(account.windows, limit, now())
  }
}

function admitShared(parts: Parts, way: Way): void {
  void (async () => {
    const { account, own } = way
    const [general, ofOwn] = await Promise.all([
      takeShared(parts, account, account.general),
      takeShared(parts, account, own),
    ])
    if (passes(way, tighter(general, ofOwn), parts.now())) await useShared(parts, way)
  })().catch(way.done)
}

async function useShared(parts: Parts, way: Way): Promise<void> {
  const { quotas: store } = parts.counters.shared as NonNullable<Counters['shared']>
  const month = parts.monthAt(parts.now())
  const quotas = quotasOf(way)
  const taken: Allowance[] = []
  const giveBack = () => taken.splice(0).map((one) => store.back(one.key, month.name))
  let refused: Allowance | undefined
  for (const one of quotas) {
    if (one === null || refused !== undefined) continue
    const { used, isGranted } = await store.take(one.key, month.name, one.limit)
    Object.assign(one, { used, period: month.name })
    if (isGranted) taken.push(one)
    else refused = one
  }
  tellQuota(way.reply, ...quotas, month)
  if (refused === undefined) return goOn(parts, way, () => void Promise.allSettled(giveBack()))
  await Promise.all(giveBack())
  way.done(quotaExceeded(refused, month))
}
