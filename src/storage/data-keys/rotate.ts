import type { Database, Queryable } from '../database.ts'
import { fingerprintOf } from '../encryption.ts'
import { iso, type RandomBytes } from '../ids.ts'
import type { DataKeyRow } from '../tables/administration.ts'
import { activeKey, newDataKey, storedDataKeys, unwrapped, wrapped } from './stored.ts'

/** The progress of a rotation of the master key, as stored in the database. */
export interface RotationState {
  /** The fingerprints of the valid master keys, oldest first: one, or two during a rotation. */
  fingerprints: string[]
  /** The newest encryption key, and the active one; they differ only until the newest key is activated. */
  newest: Pick<DataKeyRow, 'id' | 'createdAt' | 'activatedAt'>
  active: Pick<DataKeyRow, 'id' | 'createdAt' | 'activatedAt'>
}

export async function rotationState(db: Queryable): Promise<RotationState> {
  return stateOf(await storedDataKeys(db))
}

function stateOf(rows: readonly DataKeyRow[]): RotationState {
  const generations = new Map(rows.map(({ generation, fingerprint }) => [generation, fingerprint]))
  const fingerprints = [...generations].sort(([one], [other]) => one - other).map(([, fingerprint]) => fingerprint)
  const newest = rows.findLast(({ purpose }) => purpose === 'seal')
  if (newest === undefined) throw new Error('The table data_keys has no key for encryption: restore it from a backup')
  return { fingerprints, newest, active: activeKey(rows) }
}

/** Thrown if another command has changed the state of the rotation in the meantime. */
export class RotationChanged extends Error {
  override name = 'RotationChanged'
  constructor() {
    super('Another command rotates the master key: wait until it has ended, then run this again')
  }
}

/** Locks and reads the keys, so that no other transaction can change them before this one ends. */
async function lockedKeys(tx: Queryable): Promise<DataKeyRow[]> {
  await tx
    .updateTable('dataKeys')
    .set((row) => ({ id: row.ref('id') }))
    .execute()
  return storedDataKeys(tx)
}

export interface NewMasterKey {
  current: Uint8Array
  next: Uint8Array
  now: () => number
  random: RandomBytes
}

/**
 * Makes the next master key valid, in addition to the current one, and adds a data key that is not active yet. Discards
 * the next master key of an earlier, unfinished rotation.
 */
export function addMasterKey({ write }: Database, { current, next, now, random }: NewMasterKey): Promise<void> {
  return write(async (tx) => {
    const rows = await lockedKeys(tx)
    const own = rows.filter(({ fingerprint }) => fingerprint === fingerprintOf(current))
    const generation = own[0]?.generation
    if (generation === undefined || rows.some((row) => row.generation < generation)) throw new RotationChanged()
    const id = Math.max(...rows.map((row) => row.id)) + 1
    const added = newDataKey(random, { id, purpose: 'seal', createdAt: iso(now()), activatedAt: null })
    const keys = [...unwrapped(own, current), added]
    await tx.deleteFrom('dataKeys').where('generation', '>', generation).execute()
    await tx
      .insertInto('dataKeys')
      .values([...wrapped([added], current, generation, random), ...wrapped(keys, next, generation + 1, random)])
      .execute()
  })
}

/** Activates the newest data key: from now on, it encrypts new secrets. */
export function activateNewest({ write }: Database, now: () => number): Promise<void> {
  return write(async (tx) => {
    const { newest } = stateOf(await lockedKeys(tx))
    const inactive = tx.updateTable('dataKeys').where('id', '=', newest.id).where('activatedAt', 'is', null)
    await inactive.set({ activatedAt: iso(now()) }).execute()
  })
}

/**
 * Invalidates all master keys except the newest, which must have this fingerprint. Removes data keys that were replaced
 * by earlier rotations. Keeps the data key that this rotation replaced, because a process that has not loaded the new
 * key may still encrypt with it. `record` runs in the same transaction.
 */
export function removeOldMasterKey(
  { write }: Database,
  fingerprint: string,
  record: (tx: Queryable, removed: string) => Promise<void>,
): Promise<void> {
  return write(async (tx) => {
    const rows = await lockedKeys(tx)
    const { fingerprints, newest, active } = stateOf(rows)
    const [removed] = fingerprints
    if (fingerprints.at(-1) !== fingerprint || newest.id !== active.id) throw new RotationChanged()
    if (removed === undefined || fingerprints.length === 1) throw new RotationChanged()
    await tx.deleteFrom('dataKeys').where('fingerprint', '!=', fingerprint).execute()
    const replaced = rows.findLast(
      ({ id, purpose, activatedAt }) => purpose === 'seal' && activatedAt !== null && id < active.id,
    )
    const isObsolete = tx.deleteFrom('dataKeys').where('purpose', '=', 'seal').where('id', '<', active.id)
    await isObsolete.where('id', '!=', replaced?.id ?? active.id).execute()
    await record(tx, removed)
  })
}
