import Format from 'typebox/format'
import { type AuditActor, type AuditEvent, auditRecorder } from '../../audit/chain.ts'
import { instantOf } from '../../http/headers/instant.ts'
import { assertPrecondition } from '../../http/policies/assert-precondition.ts'
import type { OwnLimits } from '../../http/policies/authenticate.ts'
import type { Precondition } from '../../http/policies/conditional.ts'
import { type FieldError, Problem } from '../../http/problems/problem.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import { newId, type RandomBytes } from '../../storage/ids.ts'
import { firstRevision, nextRevision } from '../../storage/rows/revision.ts'
import type { ApiKey } from '../../storage/tables/administration.ts'
import { ownLimitRules } from '../account-limits.ts'
import { apiKeyHash, apiKeyHint, newApiKey } from './api-key-text.ts'

/** The writable fields of an API key; null means the default limit, or no expiry. */
export interface ApiKeySettings extends OwnLimits {
  name: string
  /** When the key expires, stored as fixed-width ISO text in UTC; null if it does not expire. */
  expiresAt: string | null
}

/** Everything needed to store and change API keys; `actor` is recorded in the audit log. */
export interface ApiKeyStore {
  db: Database
  sealer: Sealer
  now: () => number
  random: RandomBytes
  actor: AuditActor
}

const namePattern = /^\P{C}{1,200}$/u

/**
 * Normalizes a date-time to fixed-width ISO text in UTC; undefined for any other text. A date without a time is not
 * accepted, because the end of a day depends on the time zone.
 */
const endOf = (text: string) => (Format.IsDateTime(text) ? instantOf(text) : undefined)

/** Throws a VALIDATION_ERROR that lists every invalid field and the rule it violates. */
function validateSettings({ name, rate, quota, expiresAt }: ApiKeySettings, now: number): void {
  const end = expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(endOf(expiresAt) ?? '')
  const rules: [broken: boolean, field: string, message: string][] = [
    [!namePattern.test(name), 'name', 'must be 1 to 200 characters without control characters'],
    ...ownLimitRules({ rate, quota }),
    [!(end > now), 'expiresAt', 'must be an instant in the future, such as 2030-01-31T00:00:00Z'],
  ]
  const errors: FieldError[] = rules.filter(([broken]) => broken).map(([, field, message]) => ({ field, message }))
  const detail = errors.map(({ field, message }) => `${field} ${message}`).join('; ')
  if (errors.length > 0) throw new Problem('VALIDATION_ERROR', detail, { errors })
}

/**
 * Trims the name and normalizes `expiresAt`; leaves an unreadable `expiresAt` unchanged, so that validation rejects it.
 */
const normalized = (settings: ApiKeySettings): ApiKeySettings => {
  const expiresAt = endOf(settings.expiresAt ?? '') ?? settings.expiresAt
  return { ...settings, name: settings.name.trim(), expiresAt }
}

/** Valid settings with no limits, used to validate partial updates. */
const unlimited: ApiKeySettings = { name: 'unchanged', rate: null, quota: null, expiresAt: null }

/**
 * A key that has not been stored yet: its text, and its row, which contains only a digest and the first characters of
 * the text.
 */
export interface DraftApiKey {
  apiKey: ApiKey
  key: string
}

/** Creates a key without storing it. Throws a VALIDATION_ERROR that lists each invalid field. */
export function draftApiKey(
  { now, random }: ApiKeyStore,
  { name, rate = null, quota = null, expiresAt = null }: Partial<ApiKeySettings> & { name: string },
): DraftApiKey {
  const settings = normalized({ name, rate, quota, expiresAt })
  validateSettings(settings, now())
  const key = newApiKey(random)
  const at = new Date(now()).toISOString()
  const identity = { id: newId('key', random), keyHash: apiKeyHash(key), hint: apiKeyHint(key) }
  const apiKey: ApiKey = {
    ...settings,
    ...identity,
    lastUsedAt: null,
    revokedAt: null,
    ...firstRevision(at),
  }
  return { apiKey, key }
}

/** Stores a key and adds an audit entry. */
export async function addApiKey(tx: Queryable, { sealer, now, actor }: ApiKeyStore, { apiKey }: DraftApiKey) {
  await tx.insertInto('apiKeys').values(apiKey).execute()
  const { id, name, rate, quota, expiresAt } = apiKey
  const details = auditDetails({ name, rate, quota, expiresAt })
  await auditRecorder(sealer, now)(tx, { ...actor, event: 'key.created', target: id, details })
}

/** Creates and stores a key in its own transaction. Throws the same error as `draftApiKey`. */
export async function createApiKey(
  store: ApiKeyStore,
  settings: Partial<ApiKeySettings> & { name: string },
): Promise<DraftApiKey> {
  const draft = draftApiKey(store, settings)
  await store.db.write((tx) => addApiKey(tx, store, draft))
  return draft
}

const auditDetails = (settings: ApiKeySettings): Record<string, string | number> =>
  Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== null))

/** Finds the key with this id, unless the key is revoked. */
export function findApiKey({ read }: Database, id: string): Promise<ApiKey | undefined> {
  const find = read.selectFrom('apiKeys').selectAll().where('id', '=', id).where('revokedAt', 'is', null)
  return find.executeTakeFirst()
}

/** Lists all unrevoked keys, oldest first. */
export function listApiKeys({ read }: Database): Promise<ApiKey[]> {
  const keys = read.selectFrom('apiKeys').selectAll().where('revokedAt', 'is', null)
  return keys.orderBy('createdAt').orderBy('id').execute()
}

/** Changes the given fields. Throws RESOURCE_NOT_FOUND, PRECONDITION_FAILED or VALIDATION_ERROR. */
export async function updateApiKey(
  store: ApiKeyStore,
  id: string,
  settings: Partial<ApiKeySettings>,
  precondition: Precondition = {},
): Promise<ApiKey> {
  // Validation errors take precedence over a missing key or a failed precondition.
  validateSettings(normalized({ ...unlimited, ...settings }), store.now())
  return change(store, id, precondition, 'key.updated', (row) => {
    const { name, rate, quota, expiresAt } = normalized({ ...row, ...settings })
    return { name, rate, quota, expiresAt }
  })
}

/** Revokes a key permanently; it stops working within 30 seconds. Throws RESOURCE_NOT_FOUND or PRECONDITION_FAILED. */
export async function revokeApiKey(store: ApiKeyStore, id: string, precondition: Precondition = {}): Promise<void> {
  const revokedAt = new Date(store.now()).toISOString()
  await change(store, id, precondition, 'key.revoked', () => ({ revokedAt }))
}

async function change(
  { db, sealer, now, actor }: ApiKeyStore,
  id: string,
  precondition: Precondition,
  event: AuditEvent,
  decide: (row: ApiKey) => Partial<ApiKey>,
): Promise<ApiKey> {
  const record = auditRecorder(sealer, now)
  const updatedAt = new Date(now()).toISOString()
  return db.write(async (tx) => {
    const row = await locked(tx, id)
    if (row === undefined) throw new Problem('RESOURCE_NOT_FOUND', 'There is no such key')
    assertPrecondition(row, precondition)
    const values = decide(row)
    const changing = tx.updateTable('apiKeys').set({ ...values, ...nextRevision('apiKeys', updatedAt) })
    const changed = await changing.where('id', '=', id).returningAll().executeTakeFirstOrThrow()
    await record(tx, { ...actor, event, target: id, details: auditDetails(values as ApiKeySettings) })
    return changed
  })
}

/** Locks the row for the rest of the transaction, using a no-op update. */
async function locked(tx: Queryable, id: string): Promise<ApiKey | undefined> {
  const touch = tx.updateTable('apiKeys').set((row) => ({ revision: row.ref('revision') }))
  return touch.where('id', '=', id).where('revokedAt', 'is', null).returningAll().executeTakeFirst()
}
