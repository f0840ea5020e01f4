import { createSecretKey, randomBytes } from 'node:crypto'
import type { Audit } from './audit/buffer.ts'
import type { Config } from './config/config.ts'
import type { Definition } from './definition/service.ts'
import { clientAddress } from './http/headers/client-address.ts'
import { apiKeyReader } from './oauth/api-keys/lookup.ts'
import { ensureBootstrapClient } from './oauth/clients/bootstrap-client.ts'
import { consoleClient, docsClient, syncBuiltInClient } from './oauth/clients/built-in-clients.ts'
import { keyRing, maintainKeys } from './oauth/keys/key-ring.ts'
import type { Rotated } from './oauth/keys/rotation.ts'
import { currentServer } from './oauth/provider/current-server.ts'
import type { RevocationEpoch } from './oauth/tokens/revocation-epoch.ts'
import { apiScopes, unknownScopes } from './oauth/tokens/scopes.ts'
import type { TrustedIssuer } from './oauth/tokens/trusted-issuer.ts'
import { tokenVerifier } from './oauth/tokens/verify.ts'
import { tryLimits } from './oauth/users/login-throttle.ts'
import { createUserParts } from './oauth/users/users.ts'
import { ConfigError } from './startup-errors.ts'
import { sweepClock } from './storage/clock.ts'
import type { Stores } from './stores.ts'

export interface AuthorizationOptions {
  config: Config
  definition: Pick<Definition, 'scopes' | 'users'>
  stores: Pick<Stores, 'db' | 'sealer'>
  /** The service's public URL, which is the issuer and the audience of its tokens. */
  baseUrl: string
  audit: Audit
  /** The number of threads of this process that serve requests. */
  threads: number
  /** The number of revocations in this process. */
  revocations: RevocationEpoch
  /** Returns the current time in ms since the epoch. */
  now: () => number
  /** Returns the monotonic time in ms. */
  monotonic: () => number
  report: (error: unknown) => void
  /** Called when the first signing key is created, and when the keys are rotated on schedule. */
  keyNotices: { onCreated: (kid: string) => void; onRotated: (rotated: Rotated) => void }
  /** Called if the client id of a built-in client belongs to another client. */
  onClientIdTaken: (clientId: string) => void
}

/** Development allows ten times as many login attempts, because automated tests of client apps log in often. */
const developmentTryLimits = { ...tryLimits, perMinuteAndNetwork: 200, perHourAndAccount: 1_000 }

/** Opens token verification, user accounts, and the authorization server if this process has the role `auth`. */
export async function openAuthorization(options: AuthorizationOptions) {
  const { config, definition, stores, baseUrl, audit, revocations, now, monotonic, report, keyNotices } = options
  const { scopes, users: { userinfo = [] } = {} } = definition
  const { db, sealer } = stores
  const { signingAlgorithm } = config.oauth
  const sources = { db, sealer, algorithm: signingAlgorithm }
  const keys = await keyRing({ ...sources, now, onCreated: keyNotices.onCreated })
  const own = { issuer: baseUrl, audience: baseUrl, scopes, db, keys, now }
  const tokens = { ...own, revocations, sharedSecret: sharedSecret(config) }
  const { bootstrapClientId: id, bootstrapClientSecret: secret, accessTokenSeconds } = config.oauth
  if (id !== null && secret !== null) await ensureBootstrapClient(db, sealer, scopes, id, secret)
  const pages = { db, sealer, scopes, baseUrl, onTaken: options.onClientIdTaken }
  const docsClientId = await syncBuiltInClient(docsClient, { ...pages, isEnabled: !config.production })
  const consoleClientId = await syncBuiltInClient(consoleClient, {
    ...pages,
    isEnabled: config.service.console === 'on',
  })
  const users = userParts(options)
  const about = { userinfo, accessTokenSeconds, report, audit, address: clientAddress(config.http.trustedProxies) }
  const trusted = await trustedIssuer(options)
  const apiKeys = apiKeyReader({ db, now, onError: report })
  const isServed = config.service.roles.includes('auth')
  const notices = { onError: report, onRotated: keyNotices.onRotated }
  const stopMaintenance = maintainKeys(keys, sources, sweepClock(db, monotonic, report), notices)
  return {
    people: users,
    provider: isServed ? currentServer(keys, { ...tokens, ...users, ...about, sealer }) : null,
    verify: tokenVerifier({ ...tokens, trusted }),
    revocations,
    reloadKeys: keys.reload,
    readApiKey: apiKeys.read,
    docsClientId,
    consoleClientId,
    signingAlgorithm,
    stop: async () => {
      stopMaintenance()
      await Promise.all([apiKeys.flush(), trusted?.keys.close()])
    },
  }
}

function userParts({ config, stores: { db, sealer }, baseUrl: issuer, now, audit, threads }: AuthorizationOptions) {
  const { users, production, passwordCost } = config
  const { productName, accentColor, smtpUrl, smtpFrom } = users
  return createUserParts({
    ...{ db, sealer, issuer, now, random: randomBytes },
    branding: { productName, accentColor },
    smtp: smtpUrl !== null && smtpFrom !== null ? { url: smtpUrl, from: smtpFrom } : null,
    ...{ audit, threads },
    limits: production ? tryLimits : developmentTryLimits,
    ...(passwordCost && { cost: passwordCost }),
  })
}

const sharedSecret = ({ oauth: { jwtSharedSecret } }: Config) =>
  jwtSharedSecret === null ? null : createSecretKey(Buffer.from(jwtSharedSecret))

/** Scopes that a trusted issuer's tokens get only if PLINTH_TRUSTED_SCOPES lists them. */
const reserved = ['admin', 'audit:read']

async function trustedIssuer({
  config,
  definition: { scopes: known },
  now,
  report,
}: AuthorizationOptions): Promise<TrustedIssuer | null> {
  const { trustedIssuer: issuer, trustedIssuerCidrs: allowCidrs, trustedScopes } = config.oauth
  const scopes = trustedScopes ?? apiScopes(known).filter((scope) => !reserved.includes(scope))
  const unknown = unknownScopes(known, scopes)
  if (unknown.length > 0)
    throw new ConfigError(`PLINTH_TRUSTED_SCOPES contains unknown scopes: ${unknown}; use any of ${Object.keys(known)}`)
  if (issuer === null) return null
  const { trustedIssuerKeys } = await import('./oauth/tokens/trusted-issuer-keys.ts')
  const policy = { allowHttp: !config.production, allowCidrs }
  return { issuer, scopes: new Set(scopes), keys: trustedIssuerKeys({ issuer, policy, now, onError: report }) }
}
