import { errors } from 'jose'
import type { Database } from '../db/open.ts'
import type { Verification, Verify } from '../http/identify.ts'
import { type AccessTokenClaims, accessTokenReader, clockSkewSeconds, type TokenRules } from './access-tokens.ts'
import { accessTokenKinds } from './records.ts'

export interface VerifierOptions extends TokenRules {
  db: Database
  /** Milliseconds since the epoch. */
  now: () => number
  /** How many tokens are remembered at most. */
  cacheSize?: number
  /** How long a remembered token is believed without a look into the database. */
  recheckSeconds?: number
}

interface Known {
  /** The whole token: only its very text is believed. */
  token: string
  verification: Verification
  claims: AccessTokenClaims
  /** Until then, in milliseconds, the token is good without another look. */
  freshUntil: number
}

type Refusal = Exclude<Verification, { caller: unknown }>

const keyCharacters = 43

/** The end of the signature: a short key, because hashing a whole token costs more than comparing it. */
const keyOf = (token: string) => token.slice(-keyCharacters)

const expired: Refusal = { refused: 'AUTH_TOKEN_EXPIRED' }
const invalid: Refusal = { refused: 'AUTH_TOKEN_INVALID' }
const endOf = ({ exp }: AccessTokenClaims) => (exp + clockSkewSeconds) * 1_000

/**
 * Makes the judge of bearer tokens, which answers at once for a token it remembers. A revoked client or token is refused
 * after `recheckSeconds` at the latest; errors of the database reject, as they say nothing about the token.
 */
export function tokenVerifier(options: VerifierOptions): Verify {
  const { db, now, cacheSize = 10_000, recheckSeconds = 30 } = options
  const known = new Map<string, Known>()
  const read = accessTokenReader(options)
  const isLive = liveness(db)

  const recall = (token: string): Known | undefined => {
    const entry = known.get(keyOf(token))
    return entry?.token === token ? entry : undefined
  }
  const judge = async (token: string, at: number): Promise<Verification> => {
    const claims = recall(token)?.claims ?? (await read(token, at).catch(refusal))
    if ('refused' in claims) return claims
    if (at < endOf(claims) && (await isLive(claims))) return remember(token, claims, at)
    known.delete(keyOf(token))
    return at < endOf(claims) ? invalid : expired
  }
  const remember = (token: string, claims: AccessTokenClaims, at: number): Verification => {
    const freshUntil = Math.min(endOf(claims), at + recheckSeconds * 1_000)
    // Others may have asked meanwhile: all of them get the same caller.
    const verification = recall(token)?.verification ?? accepted(claims)
    if (known.size >= cacheSize && !known.has(keyOf(token))) known.delete(known.keys().next().value as string)
    known.set(keyOf(token), { token, verification, claims, freshUntil })
    return verification
  }
  return (token) => {
    const at = now()
    const entry = recall(token)
    return entry !== undefined && at < entry.freshUntil ? entry.verification : judge(token, at)
  }
}

function refusal(error: unknown): Refusal {
  return error instanceof errors.JWTExpired ? expired : invalid
}

function accepted({ client_id, sub, scope }: AccessTokenClaims): Verification {
  return { caller: { clientId: client_id, subject: sub, scopes: new Set(scope.split(' ')) } }
}

/**
 * Whether the token's client is still registered, the user it speaks for still there, and neither the token nor the
 * grant behind it revoked.
 */
function liveness(db: Database): (claims: AccessTokenClaims) => Promise<boolean> {
  const client = db.read.selectFrom('clients').select('id').where('id', '=', '').where('revokedAt', 'is', null)
  const live = db.prepare(client.where(({ exists, not }) => not(exists(revokedToken(db)))))
  const user = db.prepare(db.read.selectFrom('users').select('id').where('id', '=', 0))
  return async ({ client_id, jti, sub }) => {
    if ((await live.all([client_id, jti, ...accessTokenKinds, 'Grant'])).length === 0) return false
    return sub === client_id || (isUserId(sub) && (await user.all([Number(sub)])).length > 0)
  }
}

const isUserId = (subject: string) => /^[1-9]\d{0,8}$/.test(subject)

function revokedToken({ read }: Database) {
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
      return or([eb('token.consumedAt', 'is not', null), orphan])
    })
}
