import { hash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { clientAddress, networkOf } from '../http/headers/client-address.ts'
import type { ApiKeyIdentity, Caller } from '../http/policies/authenticate.ts'
import { routeConfig } from '../http/route-config.ts'
import { isOver, type Window } from './fixed-window.ts'
import { type Limit, limitOf, rateOf } from './limit.ts'
import { type AccountAllowances, allowanceOf, allowancesNow, type QuotaSettings } from './quota.ts'
import { type DelayQueue, lineOf, type Pace, stepOf } from './throttle.ts'

/** A rate-limit bucket: the requests that count together, and what this process has counted for them. */
export interface Bucket {
  /** The same on every node and after every restart. */
  key: string
  kind: 'key' | 'client' | 'network'
  general: Limit | null
  windows: (Window | undefined)[]
  /** Null for anonymous callers, who have no quota. */
  quotas: AccountAllowances | null
  line: DelayQueue | null
  /** Set when the account was evicted: holders of a reference must look it up again. */
  isForgotten: boolean
}

export interface AccountsOptions {
  general: Limit | null
  anonymous: Limit | null
  pace: Pace | null
  quotas: QuotaSettings
  trustedProxies: readonly string[]
  now: () => number
  /** Maximum number of accounts in memory, for clients and for networks each. */
  most?: number
}

/** Finds the account of a request: its API key, otherwise the token's client and subject, otherwise its network. */
export interface Accounts {
  of: (request: FastifyRequest) => Bucket
  /** Ignores all credentials; used to limit attempts at guessing secrets (T-LIM-02). */
  ofNetwork: (request: Pick<FastifyRequest, 'raw'>) => Bucket
}

/** Bounded: new addresses evict other addresses, never clients. */
export function buckets({
  general,
  anonymous,
  pace,
  quotas,
  trustedProxies,
  now,
  most = 50_000,
}: AccountsOptions): Accounts {
  const addressOf = clientAddress(trustedProxies)
  const isDirect = trustedProxies.length === 0
  const clients = remembered(most, now)
  const networks = remembered(most, now)
  // Cached tokens, API keys and connections are the same object each time, so a known one needs no key string.
  const seen = new WeakMap<object, Bucket>()

  const ofNetwork: Accounts['ofNetwork'] = ({ raw }) => {
    const before = isDirect ? seen.get(raw.socket) : undefined
    if (before !== undefined && !before.isForgotten) return before
    const key = keyOf('net', networkOf(addressOf(raw)))
    const found = networks.get(key, () => fresh(key, 'network', anonymous, null, pace && lineOf(pace, null)))
    if (isDirect) seen.set(raw.socket, found)
    return found
  }
  const ofKey = (identity: ApiKeyIdentity): Bucket => {
    const key = keyOf('key', identity.id)
    const own = identity.rate === null ? null : rateOf(identity.rate)
    const limit = own === null ? general : limitOf('default', own)
    const allowances = allowanceOf(key, quotas, identity.quota)
    const found = clients.get(key, () => fresh(key, 'key', limit, allowances, pace && lineOf(pace, own)))
    // The key's rate or quota may have changed.
    if (found.general?.policy !== limit?.policy) found.general = limit
    if (found.quotas !== null) found.quotas = allowancesNow(found.quotas, allowances)
    if (found.line && pace) found.line.stepMs = stepOf(pace, own)
    return found
  }
  const ofCaller = ({ clientId, subject }: Caller): Bucket => {
    const key = keyOf('client', clientId, subject)
    const make = () => fresh(key, 'client', general, allowanceOf(key, quotas, null), pace && lineOf(pace, null))
    return clients.get(key, make)
  }
  const once = <T extends object>(of: T, find: (of: T) => Bucket): Bucket => {
    const before = seen.get(of)
    if (before !== undefined && !before.isForgotten) return before
    const found = find(of)
    seen.set(of, found)
    return found
  }
  return {
    ofNetwork,
    of: (request) => {
      const { apiKey, caller } = request
      // Without a valid token an API key counts only where no token is needed; a request that gets 401 counts by its
      // address.
      if (caller === null) return apiKey === null || needsToken(request) ? ofNetwork(request) : once(apiKey, ofKey)
      if ('refused' in caller) return ofNetwork(request)
      return apiKey === null ? once(caller.caller, ofCaller) : once(apiKey, ofKey)
    },
  }
}

/** Whether the route requires a token; false for a path without a route. */
export function needsToken(request: FastifyRequest): boolean {
  const { scope } = routeConfig(request)
  return scope !== undefined && scope !== 'public' && scope !== 'own'
}

const maxKey = 200

/** Joins the parts unambiguously, whatever characters they contain; long keys are replaced by their digest. */
function keyOf(kind: string, ...parts: string[]): string {
  const text = `${kind}:${parts.map(encodeURIComponent).join(',')}`
  return text.length <= maxKey ? text : `${kind}:${hash('sha256', text, 'base64url')}`
}

const fresh = (
  key: string,
  kind: Bucket['kind'],
  general: Limit | null,
  quotas: Bucket['quotas'],
  line: DelayQueue | null,
): Bucket => ({ key, kind, general, windows: [], quotas, line, isForgotten: false })

const looksForRoom = 8

/** A bounded map: a new entry evicts accounts whose windows have ended, otherwise the oldest. */
function remembered(most: number, now: () => number) {
  const known = new Map<string, Bucket>()
  const forget = (account: Bucket) => {
    account.isForgotten = true
    known.delete(account.key)
  }
  const makeRoom = () => {
    let looked = 0
    for (const account of known.values()) {
      if (isIdle(account, now())) forget(account)
      else if (known.size >= most && !isHeld(account)) {
        // Still counting: moved to the end of the eviction order.
        known.delete(account.key)
        known.set(account.key, account)
      }
      if (++looked >= looksForRoom) break
    }
    for (const account of known.values()) {
      if (known.size < most) break
      if (!isHeld(account)) forget(account)
      else if (++looked > 2 * looksForRoom) break
    }
  }
  return {
    get: (key: string, make: () => Bucket): Bucket => {
      const before = known.get(key)
      if (before !== undefined) return before
      if (known.size >= most) makeRoom()
      const account = make()
      known.set(key, account)
      return account
    },
  }
}

/** True when the account has state that exists only in this process. */
const isHeld = ({ quotas, line }: Bucket) =>
  [quotas?.requests, quotas?.reports].some((one) => one && one.unsaved > 0) ||
  (line !== null && line.waiting.length > 0)

const isIdle = (account: Bucket, atMs: number) =>
  !isHeld(account) && account.windows.every((window) => window === undefined || isOver(window, atMs))
