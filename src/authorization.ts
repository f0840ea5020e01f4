import { randomBytes } from 'node:crypto'
import { ensureBootstrapClient } from './auth/clients.ts'
import { currentServer, keyRing } from './auth/key-ring.ts'
import { tryLimits } from './auth/login-tries.ts'
import { people } from './auth/people.ts'
import type { Scopes } from './auth/scopes.ts'
import { tokenVerifier } from './auth/verify.ts'
import type { Config } from './config.ts'
import { clientAddress } from './http/client-address.ts'
import type { Stores } from './stores.ts'

export interface AuthorizationOptions {
  config: Config
  /** Every scope there is. */
  scopes: Scopes
  stores: Pick<Stores, 'db' | 'sealer'>
  /** Where clients reach the service: issuer and audience of its tokens. */
  baseUrl: string
  /** Milliseconds since the epoch. */
  now: () => number
  report: (error: unknown) => void
}

/** Ten times as many from one place in development: a client's tests log in there, too. */
const developmentTryLimits = { ...tryLimits, perMinuteAndNetwork: 200, perHourAndAccount: 1_000 }
const keyLookMs = 3_600_000

/** Who may do what: the judge of tokens, the part about people, the authorization server where this process is one. */
export async function openAuthorization({ config, scopes, stores, baseUrl, now, report }: AuthorizationOptions) {
  const { db, sealer } = stores
  const keys = await keyRing({ db, sealer, now })
  const tokens = { issuer: baseUrl, audience: baseUrl, scopes, db, keys, now }
  const { bootstrapClientId: id, bootstrapClientSecret: secret, accessTokenSeconds, trustedProxies } = config
  if (id !== null && secret !== null) await ensureBootstrapClient(db, sealer, scopes, id, secret)
  const persons = peopleOf(config, stores, baseUrl, now)
  const about = { accessTokenSeconds, report, address: clientAddress(trustedProxies) }
  const timer = setInterval(() => void keys.refresh().catch(report), keyLookMs)
  return {
    people: persons,
    provider: config.roles.includes('auth') ? currentServer(keys, { ...tokens, ...persons, ...about, sealer }) : null,
    verify: tokenVerifier(tokens),
    stop: () => clearInterval(timer),
  }
}

function peopleOf(config: Config, { db, sealer }: Pick<Stores, 'db' | 'sealer'>, issuer: string, now: () => number) {
  const { productName, accentColor, smtpUrl, smtpFrom, production } = config
  return people({
    ...{ db, sealer, issuer, now, random: randomBytes },
    branding: { productName, accentColor },
    smtp: smtpUrl !== null && smtpFrom !== null ? { url: smtpUrl, from: smtpFrom } : null,
    limits: production ? tryLimits : developmentTryLimits,
  })
}
