import { auditRecorder, operator } from '../../audit/chain.ts'
import { ConfigError } from '../../startup-errors.ts'
import {
  activateNewest,
  addMasterKey,
  type RotationState,
  removeOldMasterKey,
  rotationState,
} from '../../storage/data-keys/rotate.ts'
import { countOthers, reencrypt } from '../../storage/data-keys/sealed-columns.ts'
import { fingerprintOf } from '../../storage/encryption.ts'
import type { RandomBytes } from '../../storage/ids.ts'
import { type Stores, sealedColumns } from '../../stores.ts'

/** A completed step of a rotation, or the beginning of a wait. */
export type RotationStep =
  | { step: 'added'; fingerprint: string }
  | { step: 'waiting'; ms: number }
  | { step: 'activated'; dataKey: number }
  | { step: 'encrypted'; column: string; rows: number }
  | { step: 'replaced' }
  | { step: 'removed'; fingerprint: string }

export interface MasterKeyRotation {
  stores: Pick<Stores, 'db' | 'sealer' | 'reloadKeys'>
  current: Uint8Array
  /**
   * Returns the next master key; undefined if there is none. `isNew` is true at the start of a rotation, when a key may
   * be created.
   */
  nextKey: (isNew: boolean) => Uint8Array | undefined
  /** Stores the next master key for later starts; undefined if the operator must configure the key. */
  replaceKey: (() => void) | undefined
  /** Whether to rotate to another key even if a rotation is in progress. */
  startOver: boolean
  /** How long running processes may take to load a change to the data keys; 0 if none are running. */
  loadedWithinMs: number
  now: () => number
  random: RandomBytes
  wait: (ms: number) => Promise<void>
  onStep: (step: RotationStep) => void
}

/**
 * - `idle`: there was nothing to rotate
 * - `both valid`: all secrets are encrypted with a new data key; the old and the new master key are valid
 * - `finished`: only the new master key is valid
 */
export type RotationOutcome = 'idle' | 'both valid' | 'finished'

/**
 * Rotates the master key while services run: makes the next key valid, encrypts every secret with a new data key, and
 * invalidates the old key. Each step is stored, so that the next call continues after an interruption. Without
 * `startOver`, throws `ConfigError` if a rotation to another key is in progress.
 */
export async function rotateMasterKey(rotation: MasterKeyRotation): Promise<RotationOutcome> {
  const { stores, current, nextKey, replaceKey, startOver } = rotation
  const state = await rotationState(stores.db.read)
  const newest = state.fingerprints.at(-1) as string
  const isBegun = state.fingerprints.length > 1
  const isReplaced = isBegun && newest === fingerprintOf(current)
  if (!isReplaced) {
    const isNew = !isBegun || startOver
    const next = nextKey(isNew)
    if (!isBegun && (next === undefined || fingerprintOf(next) === newest)) {
      await encryptAll(rotation, state.active.id)
      return 'idle'
    }
    if (next === undefined || (!isNew && fingerprintOf(next) !== newest)) throw otherKey(newest)
    if (isNew) await begin(rotation, next)
  }
  await encryptWithNewest(rotation)
  if (!isReplaced) {
    if (replaceKey === undefined) return 'both valid'
    replaceKey()
    rotation.onStep({ step: 'replaced' })
  }
  await finish(rotation)
  return 'finished'
}

const otherKey = (fingerprint: string) =>
  new ConfigError(
    `A rotation to the master key with the fingerprint ${fingerprint} is in progress. Set PLINTH_NEW_MASTER_KEY to that ` +
      'key, or, if it is lost, use --start-over to rotate to another key',
  )

async function begin({ stores: { db }, current, now, random, onStep }: MasterKeyRotation, next: Uint8Array) {
  await addMasterKey(db, { current, next, now, random })
  onStep({ step: 'added', fingerprint: fingerprintOf(next) })
}

/**
 * Activates the newest data key once every process has loaded it, and encrypts all secrets with it. Encrypts again at
 * the end, because until every process uses the new key, some still encrypt secrets with the previous one.
 */
async function encryptWithNewest(rotation: MasterKeyRotation): Promise<void> {
  const { stores, now, onStep } = rotation
  const { db, reloadKeys } = stores
  const { newest } = await rotationState(db.read)
  if (newest.activatedAt === null) {
    await untilLoaded(rotation, newest.createdAt)
    await activateNewest(db, now)
    onStep({ step: 'activated', dataKey: newest.id })
  }
  await reloadKeys()
  await encryptAll(rotation, newest.id)
  const { active } = await rotationState(db.read)
  await untilLoaded(rotation, active.activatedAt as string)
  await encryptAll(rotation, newest.id)
}

/** Waits until every running process has loaded a change that was made at this instant. */
async function untilLoaded({ loadedWithinMs, now, wait, onStep }: MasterKeyRotation, at: string): Promise<void> {
  const ms = Math.min(Math.max(Date.parse(at) + loadedWithinMs - now(), 0), loadedWithinMs)
  if (ms === 0) return
  onStep({ step: 'waiting', ms })
  await wait(ms)
}

const lockedRowsMs = 250

/** Encrypts all secrets that are not yet encrypted with this data key; returns once there are none. */
async function encryptAll({ stores, wait, onStep }: MasterKeyRotation, sealId: number): Promise<void> {
  const { db, sealer } = stores
  for (;;) {
    let others = 0
    for (const column of sealedColumns) {
      await reencrypt(db, column, {
        ...{ sealer, sealId },
        onBatch: ({ table, column: name }, rows) => onStep({ step: 'encrypted', column: `${table}.${name}`, rows }),
      })
      others += await countOthers(db.read, column, sealId)
    }
    if (others === 0) return
    await wait(lockedRowsMs)
  }
}

async function finish({ stores: { db, sealer }, now, onStep }: MasterKeyRotation): Promise<void> {
  const { fingerprints }: RotationState = await rotationState(db.read)
  const [from] = fingerprints
  const to = fingerprints.at(-1) as string
  const record = auditRecorder(sealer, now)
  await removeOldMasterKey(db, to, (tx) =>
    record(tx, { ...operator, event: 'master_key.rotated', target: to, details: { from: from as string } }),
  )
  onStep({ step: 'removed', fingerprint: from as string })
}
