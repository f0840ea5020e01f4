import { hash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { clientAddress, networkOf } from '../http/headers/client-address.ts'
import type { ApiKeyIdentity, Caller, OwnLimits } from '../http/policies/authenticate.ts'
import { routeConfig } from '../http/route-config.ts'
import { isOver, type Window } from './fixed-window.ts'
import { type Limit, limitOf, type Rate, rateOf } from './limit.ts'
import { type AccountAllowances, allowanceOf, allowancesNow, type QuotaSettings } from './quota.ts'
import type { AccountCells } from './threads/limit-cells.ts'
import { type DelayQueue, newDelayQueue, type Pace, stepOf } from './throttle.ts'

/** A rate-limit bucket: an account whose requests are counted together, with its counts in this process. */
export interface Bucket {
  /** Identifies the account on every node and across restarts. */
  key: string
  kind: 'key' | 'client' | 'network'
  general: Limit | null
  windows: (Window | undefined)[]
  /** Counts shared by all threads of the process; null if there is only one thread. */
  cells: AccountCells | null
  /** Null for anonymous callers, which have no quotas. */
  quotas: AccountAllowances | null
  delayQueue: DelayQueue | null
  /** Set when the account is evicted. Code that still references it must then look it up again. */
  isEvicted: boolean
}

export interface AccountsOptions {
  general: Limit | null
  anonymous: Limit | null
  pace: Pace | null
  quotas: QuotaSettings
  trustedProxies: readonly string[]
  now: () => number
  /** Finds the counters that threads share; by default, each thread counts separately. */
  cellsOf?: ((account: string) => AccountCells) | null
  /** Maximum number of accounts in memory; applies separately to clients and to networks. */
  max?: number
}

/**
 * Finds a request's account: by API key, otherwise by the token's client and subject, otherwise by network. A request
 * that will get a 401 counts for its network.
 */
export interface Accounts {
  of: (request: FastifyRequest) => Bucket
  /** Finds the network's account, ignoring all credentials; used to limit attempts to guess secrets (T-LIM-02). */
  ofNetwork: (request: Pick<FastifyRequest, 'raw'>) => Bucket
}

/** Finds or creates accounts, up to a maximum number. New networks evict only other networks, never clients. */
export function buckets({
  general,
  anonymous,
  pace,
  quotas,
  trustedProxies,
  now,
  cellsOf = null,
  max = 50_000,
}: AccountsOptions): Accounts {
  const addressOf = clientAddress(trustedProxies)
  const isDirect = trustedProxies.length === 0
  const clients = bucketCache(max, now)
  const networks = bucketCache(max, now)
  // A cached token, API key or connection is the same object in every request, so its bucket can be found without
  // building a key.
  const seen = new WeakMap<object, Bucket>()

  const fresh = newBucket(pace, cellsOf)
  const ofNetwork: Accounts['ofNetwork'] = ({ raw }) => {
    const before = isDirect ? seen.get(raw.socket) : undefined
    if (before !== undefined && !before.isEvicted) return before
    const key = keyOf('net', networkOf(addressOf(raw)))
    const found = networks.get(key, () => fresh(key, { kind: 'network', general: anonymous, quotas: null }, null))
    if (isDirect) seen.set(raw.socket, found)
    return found
  }
  const withOwn = (kind: 'key' | 'client', key: string, { rate, quota }: OwnLimits): Bucket => {
    const own = rate === null ? null : rateOf(rate)
    const limit = own === null ? general : limitOf('default', own)
    const allowances = allowanceOf(key, quotas, quota, cellsOf?.(key))
    const found = clients.get(key, () => fresh(key, { kind, general: limit, quotas: allowances }, own))
    // The rate or quota of the API key or client may have changed since the account was created.
    if (found.general?.policy !== limit?.policy) found.general = limit
    if (found.quotas !== null) found.quotas = allowancesNow(found.quotas, allowances)
    if (found.delayQueue && pace) found.delayQueue.stepMs = stepOf(pace, own)
    return found
  }
  const ofKey = (identity: ApiKeyIdentity): Bucket => withOwn('key', keyOf('key', identity.id), identity)
  const ofCaller = ({ clientId, subject, limits = none }: Caller): Bucket =>
    withOwn('client', keyOf('client', clientId, subject), limits)
  const once = <T extends object>(of: T, find: (of: T) => Bucket): Bucket => {
    const before = seen.get(of)
    if (before !== undefined && !before.isEvicted) return before
    const found = find(of)
    seen.set(of, found)
    return found
  }
  return {
    ofNetwork,
    of: (request) => {
      const { apiKey, caller } = request
      // Without a token, an API key counts only on routes that require no token. On other routes, the request will get
      // a 401 and counts for its network.
      if (caller === null) return apiKey === null || needsToken(request) ? ofNetwork(request) : once(apiKey, ofKey)
      if ('refused' in caller) return ofNetwork(request)
      return apiKey === null ? once(caller.caller, ofCaller) : once(apiKey, ofKey)
    },
  }
}

/** Returns whether the route requires a token; false for a path without a route. */
export function needsToken(request: FastifyRequest): boolean {
  const { scope } = routeConfig(request)
  return scope !== undefined && scope !== 'public' && scope !== 'own'
}

/** The limits of clients that have no limits of their own. */
const none: OwnLimits = { rate: null, quota: null }

const maxKey = 200

/** Joins the parts unambiguously, regardless of the characters they contain. Replaces a long key by its digest. */
function keyOf(kind: string, ...parts: string[]): string {
  const text = `${kind}:${parts.map(encodeURIComponent).join(',')}`
  return text.length <= maxKey ? text : `${kind}:${hash('sha256', text, 'base64url')}`
}

/** Returns the function that creates accounts. */
const newBucket =
  (pace: Pace | null, cellsOf: AccountsOptions['cellsOf']) =>
  (key: string, of: Pick<Bucket, 'kind' | 'general' | 'quotas'>, own: Rate | null): Bucket => {
    const cells = cellsOf?.(key) ?? null
    const delayQueue = pace && newDelayQueue(pace, own, cells?.pace)
    return { key, ...of, windows: [], cells, delayQueue, isEvicted: false }
  }

const checksForRoom = 8

/**
 * Creates a map of about `max` accounts. Adding an account to a full map evicts those of the oldest accounts whose
 * windows have ended or, if there are none, another old account. Accounts in use are kept.
 */
function bucketCache(max: number, now: () => number) {
  const known = new Map<string, Bucket>()
  const evict = (account: Bucket) => {
    account.isEvicted = true
    known.delete(account.key)
  }
  const makeRoom = () => {
    let checked = 0
    for (const account of known.values()) {
      if (isIdle(account, now())) evict(account)
      else if (known.size >= max && !isInUse(account)) {
        // The window has not ended, so the account moves to the end of the eviction order.
        known.delete(account.key)
        known.set(account.key, account)
      }
      if (++checked >= checksForRoom) break
    }
    for (const account of known.values()) {
      if (known.size < max) break
      if (!isInUse(account)) evict(account)
      else if (++checked > 2 * checksForRoom) break
    }
  }
  return {
    get: (key: string, make: () => Bucket): Bucket => {
      const before = known.get(key)
      if (before !== undefined) return before
      if (known.size >= max) makeRoom()
      const account = make()
      known.set(key, account)
      return account
    },
  }
}

/** Returns true if the account has unsaved quota usage or waiting calls. */
const isInUse = ({ quotas, delayQueue }: Bucket) =>
  [quotas?.requests, quotas?.reports].some((one) => one && one.unsaved > 0) ||
  (delayQueue !== null && delayQueue.waiting.length > 0)

const isIdle = (account: Bucket, atMs: number) =>
  !isInUse(account) && account.windows.every((window) => window === undefined || isOver(window, atMs))
