import type { Selectable } from 'kysely'
import type { Revisioned } from '../rows/revision.ts'

/** API keys. They determine the rate limits of requests, but authenticate nobody. */
export interface ApiKeysTable extends Revisioned {
  id: string
  name: string
  keyHash: string
  /** The first characters of the key, by which operators can recognize it. */
  hint: string
  rate: string | null
  quota: number | null
  expiresAt: string | null
  lastUsedAt: string | null
  revokedAt: string | null
}

/** An entry of the audit log; the database rejects updates, and deletes of entries that are not archived. */
export interface AuditEntriesTable {
  sequence: number
  at: string
  event: string
  clientId: string | null
  subject: string | null
  target: string | null
  address: string | null
  requestId: string | null
  details: string | null
  /** Computed from this entry and the previous entry's hash. */
  hash: string
}

/** A single row with the number and the hash of the newest entry. */
export interface AuditHeadTable {
  id: number
  sequence: number
  hash: string
  /** When the lease of the node that is archiving months expires; null while no node is. */
  archivingUntil: string | null
}

/** A month of the audit log whose entries are in a file. The database rejects updates and deletes. */
export interface AuditArchivesTable {
  /** The month in UTC, such as `2026-01`. */
  month: string
  /** The key of the file in the result store. */
  key: string
  firstSequence: number
  lastSequence: number
  /** The hash of the entry before the first one, and of the last one. */
  previousHash: string
  lastHash: string
  sizeBytes: number
  /** The SHA-256 of the file, in base64. */
  sha256: string
  archivedAt: string
  /** A keyed digest of the other columns. */
  digest: string
}

/** Keys that sign tokens; `privateSealed` is encrypted. */
export interface SigningKeysTable {
  kid: string
  alg: string
  privateSealed: string
  createdAt: string
  /** When the key is first used to sign; it is published before that. */
  activeFrom: string
}

/** A data key, encrypted under one master key. During a rotation of the master key, each data key has two rows. */
export interface DataKeysTable {
  id: number
  /** The number of the master key: 1 for the first, and incremented by each rotation. */
  generation: number
  /** `seal` keys encrypt secrets; the `digest` key computes keyed digests. */
  purpose: 'seal' | 'digest'
  /** Identifies the master key. */
  fingerprint: string
  wrapped: string
  createdAt: string
  /** When the key began to encrypt new secrets; null if it has not yet. */
  activatedAt: string | null
}

/** Small values shared by all nodes, such as the encrypted cookie keys. */
export interface SettingsTable {
  name: string
  value: string
}

/** The quota that an account has used in a calendar month. */
export interface QuotaUsesTable {
  key: string
  /** The month, such as `2026-11`. */
  period: string
  used: number
  /** How many calls the most recent update granted, which may be fewer than it requested. */
  granted: number
}

/** The service's processes that use the database, and those that ended without removing their row. */
export interface NodesTable {
  /** The node's id (`nod_…`), generated at each start. */
  id: string
  hostname: string
  pid: number
  /** The release that the process runs. */
  version: string
  /** The process's roles, comma-separated, such as `api,auth`. */
  roles: string
  /** The newest migration in the release. */
  schemaVersion: string
  /** The settings that are compared between nodes, as JSON; secrets as keyed digests. */
  settings: string
  /** The field names of each resource in the definition, by path, as JSON. */
  resources: string
  /** A digest of `resources`. */
  definition: string
  /** How far the machine's clock is ahead of the database's clock. */
  clockAheadMs: number
  startedAt: string
  heartbeatAt: string
}

/**
 * Request counts in current windows; rate-limiter-flexible requires the names `key`, `points` and `expire` (epoch ms).
 */
export interface LimitWindowsTable {
  key: string
  points: number
  expire: number | null
}

export type DataKeyRow = Selectable<DataKeysTable>
export type ApiKey = Selectable<ApiKeysTable>
export type AuditArchive = Selectable<AuditArchivesTable>
export type AuditRow = Selectable<AuditEntriesTable>
