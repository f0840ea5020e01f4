import { createHash, createHmac } from 'node:crypto'
import { hostname } from 'node:os'
import { baseUrlOf, type Config } from '../config/config.ts'
import { resultsUrlOf } from '../config/storage.ts'
import type { Definition } from '../definition/service.ts'
import { fingerprintOf } from '../storage/encryption.ts'
import { migrationNames } from '../storage/migrate.ts'
import type { NodesTable } from '../storage/tables/administration.ts'

/** The settings that nodes compare, by name; null for a setting that is not set. */
export type ComparedSettings = Readonly<Record<string, string | null>>

/** The data that a node publishes about itself. */
export type NodeFacts = Omit<NodesTable, 'id' | 'clockAheadMs' | 'startedAt' | 'heartbeatAt'>

export interface NodeOptions {
  config: Config
  definition: Pick<Definition, 'collections'>
  masterKey: Uint8Array
  /** The Plinth release. */
  version: string
}

/**
 * Settings on which all nodes must agree; a node that differs does not start. The master key is not one of them: the
 * database determines which keys are valid, and two are valid during a rotation.
 */
export const sharedSettings: readonly string[] = ['PLINTH_BASE_URL', 'PLINTH_RESULTS_URL', 'REDIS_URL']

const fingerprintLength = 16

/**
 * Returns the settings that nodes compare. Fingerprints replace secrets, and words such as `set` replace addresses that
 * may differ between nodes.
 */
function comparedSettings({ config, masterKey }: NodeOptions): ComparedSettings {
  const { oauth, rateLimits, storage, versions } = config
  const { jwtSharedSecret: secret } = oauth
  const digestOf = (text: string) => createHmac('sha256', masterKey).update(text).digest('base64url')
  const results = resultsUrlOf(storage)
  return {
    PLINTH_BASE_URL: baseUrlOf(config),
    PLINTH_MASTER_KEY: `a key with the fingerprint ${fingerprintOf(masterKey)}`,
    // Nodes may use different names for the same mounted folder or the same Redis server.
    PLINTH_RESULTS_URL: results.startsWith('s3:') ? results : 'a folder',
    REDIS_URL: rateLimits.redisUrl === null ? null : 'set',
    PLINTH_ACCESS_TOKEN_TTL: String(oauth.accessTokenSeconds),
    PLINTH_SIGNING_ALGORITHM: oauth.signingAlgorithm,
    PLINTH_JWT_SHARED_SECRET: secret && `a secret with the fingerprint ${digestOf(secret).slice(0, 8)}`,
    PLINTH_TRUSTED_ISSUER: oauth.trustedIssuer,
    PLINTH_VERSIONS: JSON.stringify(versions.plans),
  }
}

/** Returns the data that this process publishes about itself. */
export function nodeFacts(options: NodeOptions): NodeFacts {
  const { config, definition, version } = options
  const resources = JSON.stringify(
    Object.fromEntries(
      definition.collections
        .map(({ declaration: { path, kinds } }) => [path, Object.keys(kinds).sort()] as const)
        .toSorted(([one], [other]) => (one < other ? -1 : 1)),
    ),
  )
  return {
    hostname: hostname(),
    pid: process.pid,
    version,
    roles: config.service.roles.join(),
    schemaVersion: migrationNames.at(-1) as string,
    settings: JSON.stringify(comparedSettings(options)),
    resources,
    definition: createHash('sha256').update(resources).digest('hex').slice(0, fingerprintLength),
  }
}
