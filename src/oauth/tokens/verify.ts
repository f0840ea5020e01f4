import { errors } from 'jose'
import { isUserId, type OwnLimits, type TokenVerification, type Verify } from '../../http/policies/authenticate.ts'
import type { Database } from '../../storage/database.ts'
import {
  type AccessTokenClaims,
  accessTokenReader,
  clockSkewSeconds,
  KeysUnavailable,
  type TokenRules,
} from './access-tokens.ts'
import { accessTokenKinds } from './auth-records.ts'
import type { RevocationEpoch } from './revocation-epoch.ts'
import { grantableScopes, intersectScopes } from './scopes.ts'
import { claimedIssuer, type TrustedIssuer, trustedIssuerTokenReader } from './trusted-issuer.ts'

export interface VerifierOptions extends TokenRules {
  db: Database
  /** Returns the current time in ms since the epoch. */
  now: () => number
  /** Maximum number of tokens in the cache. */
  cacheSize?: number
  /** How long a cached token is accepted without a database lookup. */
  recheckSeconds?: number
  /** Counts revocations in this process; if absent, only `recheckSeconds` applies. */
  revocations?: RevocationEpoch
  /** Another issuer whose tokens are accepted in addition to this service's own. */
  trusted?: TrustedIssuer | null
}

interface Known {
  /** The whole token, which is compared in full on a cache hit. */
  token: string
  verification: TokenVerification
  claims: Claims
  /** The token's current scopes and limits. */
  standing: Standing
  /** When the entry expires, in epoch ms; it becomes invalid earlier if the revocation count changes. */
  freshUntil: number
  /** The revocation count at the last lookup. */
  revocations: number
}

type Claims = AccessTokenClaims & { isFederated?: boolean }
type Refusal = Exclude<TokenVerification, { caller: unknown }>

const keyCharacters = 43

/**
 * Returns the end of the signature as a short cache key, because hashing a whole token costs more than comparing it.
 */
const keyOf = (token: string) => token.slice(-keyCharacters)

const expired: Refusal = { refused: 'AUTH_TOKEN_EXPIRED' }
const invalid: Refusal = { refused: 'AUTH_TOKEN_INVALID' }
const endOf = ({ exp }: AccessTokenClaims) => (exp + clockSkewSeconds) * 1_000

/**
 * Creates the bearer token verifier, which returns synchronously for a cached token. When a client, token or grant is
 * revoked, or a client loses a scope, the process that made the change applies it at once; other processes apply it
 * after at most `recheckSeconds`. The removal of a signing key applies at most `recheckSeconds` after the process has
 * reloaded the keys. Rejects on database errors, because the token may still be valid.
 */
export function tokenVerifier(options: VerifierOptions): Verify {
  const { now, cacheSize = 10_000, recheckSeconds = 30, revocations = { count: 0 } } = options
  const known = new Map<string, Known>()
  const read = reader(options)
  const standingNow = standingFinder(options)

  const cachedEntry = (token: string): Known | undefined => {
    const entry = known.get(keyOf(token))
    return entry?.token === token ? entry : undefined
  }
  const check = async (token: string, at: number): Promise<TokenVerification> => {
    const claims = cachedEntry(token)?.claims ?? (await read(token, at).catch(refusal))
    if ('refused' in claims) return claims
    const before = revocations.count
    const standing = at < endOf(claims) ? await standingNow(claims) : undefined
    if (standing !== undefined) return store(token, claims, standing, at, before)
    known.delete(keyOf(token))
    return at < endOf(claims) ? invalid : expired
  }
  const store = (token: string, claims: Claims, standing: Standing, at: number, revocations: number) => {
    const freshUntil = Math.min(endOf(claims), at + recheckSeconds * 1_000)
    // Concurrent requests may already have stored an entry; all of them get the same caller object.
    const before = cachedEntry(token)
    const verification = before && isSame(before.standing, standing) ? before.verification : accepted(claims, standing)
    if (known.size >= cacheSize && !known.has(keyOf(token))) known.delete(known.keys().next().value as string)
    known.set(keyOf(token), { token, verification, claims, standing, freshUntil, revocations })
    return verification
  }
  const freshOf = (entry: Known | undefined, at: number): TokenVerification | undefined =>
    entry && at < entry.freshUntil && entry.revocations === revocations.count ? entry.verification : undefined
  const verify = (token: string) => {
    const at = now()
    return freshOf(cachedEntry(token), at) ?? check(token, at)
  }
  const knownOf = (token: string) => {
    let entry = cachedEntry(token)
    return () => {
      const at = now()
      const fresh = freshOf(entry, at)
      if (fresh !== undefined) return fresh
      entry = cachedEntry(token)
      return freshOf(entry, at)
    }
  }
  return Object.assign(verify, { known: knownOf })
}

/**
 * Returns a function that selects a reader by the token's unverified `iss`; the selected reader then verifies `iss`.
 */
function reader({ trusted, ...rules }: VerifierOptions): (token: string, nowMs: number) => Promise<Claims> {
  const own = accessTokenReader(rules)
  const federated = trusted && trustedIssuerTokenReader(trusted, rules.audience)
  return async (token, nowMs) => {
    const isFederated = Boolean(trusted && claimedIssuer(token) === trusted.issuer)
    return { ...(await (federated && isFederated ? federated : own)(token, nowMs)), isFederated }
  }
}

function refusal(error: unknown): Refusal {
  if (error instanceof KeysUnavailable) throw error.cause
  return error instanceof errors.JWTExpired ? expired : invalid
}

function accepted({ client_id, sub }: Claims, { scope, limits }: Standing): TokenVerification {
  const caller = { clientId: client_id, subject: sub, scopes: new Set(scope.split(' ')) }
  return { caller: limits === undefined ? caller : { ...caller, limits } }
}

/** A token's current scopes, space-separated, and the limits that are set for its client, if any. */
export interface Standing {
  scope: string
  limits?: OwnLimits
}

const isSame = (one: Standing, other: Standing): boolean =>
  one.scope === other.scope && one.limits?.rate === other.limits?.rate && one.limits?.quota === other.limits?.quota

/**
 * Returns a function that finds a token's current scopes: the scopes that were granted to the token, that its client
 * still has, and that the user's role can grant. The result is undefined if the client, token or grant was revoked or
 * deleted, if the user was deleted or locked, or if the signing key was withdrawn. For federated tokens, only the key
 * is checked.
 *
 * This service records the user tokens it issues (`storeIssuedToken`) and rejects those without a record, so that
 * losing a record never undoes a revocation. Other tokens are recorded only when introspected or revoked; a revocation
 * record is kept until after the token expires (`sweepExpired`).
 */
export function standingFinder({ db, keys, trusted }: Pick<VerifierOptions, 'db' | 'keys' | 'trusted'>) {
  const client = db.read
    .selectFrom('clients')
    .leftJoin('users', (join) => join.on('users.id', '=', 0))
    .leftJoin('accounts', 'accounts.userId', 'users.id')
    .select(['clients.scopes', 'clients.rate', 'clients.quota', 'accounts.role'])
    .where('clients.id', '=', '')
    .where('clients.revokedAt', 'is', null)
  const unrevoked = client.where(({ exists, not }) => not(exists(recordOf(db, 'ended'))))
  const recorded = client.where(({ exists }) => exists(recordOf(db, 'standing')))
  const ofClient = db.prepare(unrevoked)
  const ofUser = db.prepare(recorded.where('users.id', 'is not', null).where('accounts.lockedAt', 'is', null))
  const ofUserElsewhere = db.prepare(unrevoked.where('users.id', 'is not', null).where('accounts.lockedAt', 'is', null))
  return async ({ client_id, jti, sub, kid, scope, isFederated }: Claims): Promise<Standing | undefined> => {
    const source = isFederated ? trusted?.keys : keys
    if (kid !== null && !source?.publicKeys.has(kid)) return undefined
    if (isFederated) return { scope }
    if (sub !== client_id && !isUserId(sub)) return undefined
    const named = [client_id, jti, ...accessTokenKinds, 'Grant']
    const found = sub === client_id ? ofClient : kid === null ? ofUserElsewhere : ofUser
    const [row] = await found.all([sub === client_id ? null : Number(sub), ...named])
    if (row === undefined) return undefined
    const { scopes, rate, quota, role } = row
    const limits = rate === null && quota === null ? undefined : { rate, quota }
    const current = intersectScopes(scope, scopes)
    return { scope: sub === client_id ? current : grantableScopes(role ?? 'user', current), ...(limits && { limits }) }
  }
}

/**
 * Selects a token's record by state: `ended` matches a token that was revoked, individually or with its grant;
 * `standing` matches a token that was not revoked.
 */
function recordOf({ read }: Database, state: 'ended' | 'standing') {
  const grant = read.selectFrom('authRecords as grant').select('grant.id').where('grant.kind', '=', 'Grant')
  return read
    .selectFrom('authRecords as token')
    .select('token.id')
    .where('token.id', '=', '')
    .where('token.kind', 'in', accessTokenKinds)
    .where(({ and, eb, exists, not, or, ref }) => {
      const orphan = and([
        eb('token.grantId', 'is not', null),
        not(exists(grant.where('grant.id', '=', ref('token.grantId')))),
      ])
      const ended = or([eb('token.consumedAt', 'is not', null), orphan])
      return state === 'ended' ? ended : not(ended)
    })
}
