import { hash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { clientAddress, networkOf } from '../http/headers/client-address.ts'
import type { ApiKeyIdentity, Caller } from '../http/policies/authenticate.ts'
import { routeConfig } from '../http/route-config.ts'
import { isOver, type Window } from './fixed-window.ts'
import { type Limit, limitOf, rateOf } from './limit.ts'
import { type AccountAllowances, allowanceOf, allowancesNow, type QuotaSettings } from './quota.ts'
import { type DelayQueue, lineOf, type Pace, stepOf } from './throttle.ts'

/** Whose calls are counted together, and what was counted in this process. */
export interface Account {
  /** The same on every node and at every start. */
  key: string
  kind: 'key' | 'client' | 'network'
  general: Limit | null
  windows: (Window | undefined)[]
  /** Null for those who are not known: they have no quota. */
  quotas: AccountAllowances | null
  line: DelayQueue | null
  /** Set when it was dropped to make room: whoever holds it looks again. */
  isForgotten: boolean
}

export interface AccountsOptions {
  general: Limit | null
  anonymous: Limit | null
  pace: Pace | null
  quotas: QuotaSettings
  trustedProxies: readonly string[]
  now: () => number
  /** How many are remembered of each sort. */
  most?: number
}

/** Finds the account of a request: its API key, else the token's client and subject, else the network it comes from. */
export interface Accounts {
  of: (request: FastifyRequest) => Account
  /** Whatever was sent along: for what guards secrets (T-LIM-02). */
  ofNetwork: (request: Pick<FastifyRequest, 'raw'>) => Account
}

/** Bounded: many addresses take the places of other addresses, never those of clients. */
export function accounts({
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
  // Tokens and keys are remembered as one object each, connections are one anyway: no text is made for a known one.
  const seen = new WeakMap<object, Account>()

  const ofNetwork: Accounts['ofNetwork'] = ({ raw }) => {
    const before = isDirect ? seen.get(raw.socket) : undefined
    if (before !== undefined && !before.isForgotten) return before
    const key = keyOf('net', networkOf(addressOf(raw)))
    const found = networks.get(key, () => fresh(key, 'network', anonymous, null, pace && lineOf(pace, null)))
    if (isDirect) seen.set(raw.socket, found)
    return found
  }
  const ofKey = (identity: ApiKeyIdentity): Account => {
    const key = keyOf('key', identity.id)
    const own = identity.rate === null ? null : rateOf(identity.rate)
    const limit = own === null ? general : limitOf('default', own)
    const allowances = allowanceOf(key, quotas, identity.quota)
    const found = clients.get(key, () => fresh(key, 'key', limit, allowances, pace && lineOf(pace, own)))
    // Its rate or quota may have been changed since.
    if (found.general?.policy !== limit?.policy) found.general = limit
    if (found.quotas !== null) found.quotas = allowancesNow(found.quotas, allowances)
    if (found.line && pace) found.line.stepMs = stepOf(pace, own)
    return found
  }
  const ofCaller = ({ clientId, subject }: Caller): Account => {
    const key = keyOf('client', clientId, subject)
    const make = () => fresh(key, 'client', general, allowanceOf(key, quotas, null), pace && lineOf(pace, null))
    return clients.get(key, make)
  }
  const once = <T extends object>(of: T, find: (of: T) => Account): Account => {
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
      // Without a good token a key counts only where none is needed: a wrong one counts by its address, as all 401 do.
      if (caller === null) return apiKey === null || needsToken(request) ? ofNetwork(request) : once(apiKey, ofKey)
      if ('refused' in caller) return ofNetwork(request)
      return apiKey === null ? once(caller.caller, ofCaller) : once(apiKey, ofKey)
    },
  }
}

/** Whether the route is closed to callers without a token; a path that is not there says nothing of it. */
export function needsToken(request: FastifyRequest): boolean {
  const { scope } = routeConfig(request)
  return scope !== undefined && scope !== 'public' && scope !== 'own'
}

const maxKey = 200

/** Parts are kept apart whatever they hold; long ones are kept as their digest. */
function keyOf(kind: string, ...parts: string[]): string {
  const text = `${kind}:${parts.map(encodeURIComponent).join(',')}`
  return text.length <= maxKey ? text : `${kind}:${hash('sha256', text, 'base64url')}`
}

const fresh = (
  key: string,
  kind: Account['kind'],
  general: Limit | null,
  quotas: Account['quotas'],
  line: DelayQueue | null,
): Account => ({ key, kind, general, windows: [], quotas, line, isForgotten: false })

const looksForRoom = 8

/** A map with room for so many; for a new one, ended ones go, and when there are none the oldest. */
function remembered(most: number, now: () => number) {
  const known = new Map<string, Account>()
  const forget = (account: Account) => {
    account.isForgotten = true
    known.delete(account.key)
  }
  const makeRoom = () => {
    let looked = 0
    for (const account of known.values()) {
      if (isIdle(account, now())) forget(account)
      else if (known.size >= most && !isHeld(account)) {
        // Still counted: to the back of the line of those who may go.
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
    get: (key: string, make: () => Account): Account => {
      const before = known.get(key)
      if (before !== undefined) return before
      if (known.size >= most) makeRoom()
      const account = make()
      known.set(key, account)
      return account
    },
  }
}

/** Has something that only this process knows. */
const isHeld = ({ quotas, line }: Account) =>
  [quotas?.requests, quotas?.reports].some((one) => one && one.unsaved > 0) ||
  (line !== null && line.waiting.length > 0)

const isIdle = (account: Account, atMs: number) =>
  !isHeld(account) && account.windows.every((window) => window === undefined || isOver(window, atMs))
