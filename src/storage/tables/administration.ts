import type { Selectable } from 'kysely'
import type { Revisioned } from '../rows/revision.ts'

/** Keys that identify whose rate limits a request counts against; they do not authenticate. */
export interface ApiKeysTable extends Revisioned {
  id: string
  name: string
  keyHash: string
  /** The first characters of the key, by which operators recognize it. */
  hint: string
  rate: string | null
  quota: number | null
  expiresAt: string | null
  lastUsedAt: string | null
  revokedAt: string | null
}

/** One entry of the audit log; the database refuses to change or remove it. */
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
  /** Covers this entry and the hash before it. */
  hash: string
}

/** A single row: the number and the hash of the newest entry. */
export interface AuditHeadTable {
  id: number
  sequence: number
  hash: string
}

/** Keys that sign tokens; the private key is encrypted. */
export interface SigningKeysTable {
  kid: string
  alg: string
  privateSealed: string
  createdAt: string
  /** When the key starts to sign; it is published before. */
  activeFrom: string
}

/** Small values shared by all nodes, such as the encrypted cookie keys. */
export interface SettingsTable {
  name: string
  value: string
}

export type ApiKey = Selectable<ApiKeysTable>
export type AuditRow = Selectable<AuditEntriesTable>
