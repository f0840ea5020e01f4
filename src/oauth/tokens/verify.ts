import { errors } from 'jose'
import type { Verification, Verify } from '../../http/policies/authenticate.ts'
import type { Database } from '../../storage/database.ts'
import { accessTokenKinds } from '../provider/adapter.ts'
import {
  type AccessTokenClaims,
  accessTokenReader,
  clockSkewSeconds,
  KeysUnavailable,
  type TokenRules,
} from './access-tokens.ts'
import type { Endings } from './revocation-epoch.ts'
import { intersectScopes } from './scopes.ts'
import { claimedIssuer, outsideTokenReader, type TrustedIssuer } from './trusted-issuer.ts'

export interface VerifierOptions extends TokenRules {
  db: Database
  /** Milliseconds since the epoch. */
  now: () => number
  /** How many tokens are remembered at most. */
  cacheSize?: number
  /** How long a remembered token is believed without a look into the database. */
  recheckSeconds?: number
  /** What ends tokens in this process; without it nothing does. */
  endings?: Endings
  /** Another issuer whose tokens are accepted besides ours. */
  trusted?: TrustedIssuer | null
}

interface Known {
  /** The whole token: only its very text is believed. */
  token: string
  verification: Verification
  claims: Claims
  /** The scopes it has now, as text. */
  scope: string
  /** Until then, in milliseconds, the token is good without another look, unless tokens were ended meanwhile. */
  freshUntil: number
  /** How many endings there had been before the last look. */
  endings: number
}

type Claims = AccessTokenClaims & { isOutside?: boolean }
type Refusal = Exclude<Verification, { caller: unknown }>

const keyCharacters = 43

/** The end of the signature: a short key, because hashing a whole token costs more than comparing it. */
const keyOf = (token: string) => token.slice(-keyCharacters)

const expired: Refusal = { refused: 'AUTH_TOKEN_EXPIRED' }
const invalid: Refusal = { refused: 'AUTH_TOKEN_INVALID' }
const endOf = ({ exp }: AccessTokenClaims) => (exp + clockSkewSeconds) * 1_000

/**
 * Makes the judge of bearer tokens, which answers at once for a token it remembers. A revoked client, token or grant and a
 * scope taken from the client are heeded at once where this process did it; these and a withdrawn key are after
 * `recheckSeconds` at the latest. Errors of the database reject, as they say nothing about the token.
 */
export function tokenVerifier(options: VerifierOptions): Verify {
  const { now, cacheSize = 10_000, recheckSeconds = 30, endings = { count: 0 } } = options
  const known = new Map<string, Known>()
  const read = reader(options)
  const scopeNow = scopeFinder(options)

  const recall = (token: string): Known | undefined => {
    const entry = known.get(keyOf(token))
    return entry?.token === token ? entry : undefined
  }
  const judge = async (token: string, at: number): Promise<Verification> => {
    const claims = recall(token)?.claims ?? (await read(token, at).catch(refusal))
    if ('refused' in claims) return claims
    const before = endings.count
    const scope = at < endOf(claims) ? await scopeNow(claims) : undefined
    if (scope !== undefined) return remember(token, claims, scope, at, before)
    known.delete(keyOf(token))
    return at < endOf(claims) ? invalid : expired
  }
  const remember = (token: string, claims: Claims, scope: string, at: number, endings: number): Verification => {
    const freshUntil = Math.min(endOf(claims), at + recheckSeconds * 1_000)
    // Others may have asked meanwhile: all of them get the same caller.
    const before = recall(token)
    const verification = before?.scope === scope ? before.verification : accepted(claims, scope)
    if (known.size >= cacheSize && !known.has(keyOf(token))) known.delete(known.keys().next().value as string)
    known.set(keyOf(token), { token, verification, claims, scope, freshUntil, endings })
    return verification
  }
  return (token) => {
    const at = now()
    const entry = recall(token)
    const isFresh = entry !== undefined && at < entry.freshUntil && entry.endings === endings.count
    return isFresh ? entry.verification : judge(token, at)
  }
}

/** The issuer a token names decides who reads it; each reader then holds the token to its own issuer. */
function reader({ trusted, ...rules }: VerifierOptions): (token: string, nowMs: number) => Promise<Claims> {
  const own = accessTokenReader(rules)
  const outside = trusted && outsideTokenReader(trusted, rules.audience)
  return async (token, nowMs) => {
    const isOutside = Boolean(trusted && claimedIssuer(token) === trusted.issuer)
    return { ...(await (outside && isOutside ? outside : own)(token, nowMs)), isOutside }
  }
}

function refusal(error: unknown): Refusal {
  if (error instanceof KeysUnavailable) throw error.cause
  return error instanceof errors.JWTExpired ? expired : invalid
}

function accepted({ client_id, sub }: Claims, scope: string): Verification {
  return { caller: { clientId: client_id, subject: sub, scopes: new Set(scope.split(' ')) } }
}

/**
 * The scopes a token has at this moment: those it was given and its client still may have. None at all when the client, the
 * token, the grant behind it or the user it speaks for is gone, or the key that signed it was withdrawn.
 *
 * A token that this service issued for a user was recorded as it was issued (`storeIssuedToken`), so without its record it is
 * refused: whatever became of the record, no revocation is forgotten. Of other tokens only a revocation makes a record, which
 * stays longer than the token can be accepted (`sweepExpired`).
 */
export function scopeFinder({ db, keys, trusted }: Pick<VerifierOptions, 'db' | 'keys' | 'trusted'>) {
  const client = db.read.selectFrom('clients').select('scopes').where('id', '=', '').where('revokedAt', 'is', null)
  const unrevoked = client.where(({ exists, not }) => not(exists(recordOf(db, 'ended'))))
  const recorded = client.where(({ exists }) => exists(recordOf(db, 'standing')))
  const user = db.read.selectFrom('users').select('users.id').where('users.id', '=', 0)
  const ofClient = db.prepare(unrevoked)
  const ofUser = db.prepare(recorded.where(({ exists }) => exists(user)))
  const ofUserElsewhere = db.prepare(unrevoked.where(({ exists }) => exists(user)))
  return async ({ client_id, jti, sub, kid, scope, isOutside }: Claims): Promise<string | undefined> => {
    const source = isOutside ? trusted?.keys : keys
    if (kid !== null && !source?.publicKeys.has(kid)) return undefined
    if (isOutside) return scope
    if (sub !== client_id && !isUserId(sub)) return undefined
    const named = [client_id, jti, ...accessTokenKinds, 'Grant']
    const found = sub === client_id ? ofClient : kid === null ? ofUserElsewhere : ofUser
    const [row] = await found.all([...named, ...(sub === client_id ? [] : [Number(sub)])])
    if (row === undefined) return undefined
    return intersectScopes(scope, row.scopes)
  }
}

const isUserId = (subject: string) => /^[1-9]\d{0,8}$/.test(subject)

/** The record of a token, if it was ended: by itself or with its grant; or if it still stands. */
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
