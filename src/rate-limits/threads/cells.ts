import { hash } from 'node:crypto'

/** A 64-bit value in memory that several threads share; initially 0. */
export interface Cell {
  load: () => bigint
  /** Replaces the value if it is still `before`; returns whether it was. */
  swap: (before: bigint, after: bigint) => boolean
}

const [cellCount, maxProbes] = [2 ** 16, 32]
const cellBytes = 2 * BigUint64Array.BYTES_PER_ELEMENT

/** Creates memory for about 65,000 cells. */
export const cellMemory = (): SharedArrayBuffer => new SharedArrayBuffer(cellCount * cellBytes)

/**
 * Returns a function that finds the cell of a key. Cells form a hash table, indexed by the first 64 bits of the key's
 * SHA-256. A cell whose value has expired may be reused for another key. If there is no room for a key, it gets a cell
 * that only this thread uses.
 */
export function cellsIn(memory: SharedArrayBuffer, isOver: (value: bigint) => boolean): (key: string) => Cell {
  const keys = new BigUint64Array(memory, 0, cellCount)
  const values = new BigUint64Array(memory, keys.byteLength, cellCount)
  /** Resets an expired value; returns false if it has not expired, or if another thread has just changed it. */
  const reset = (at: number): boolean => {
    const value = Atomics.load(values, at)
    return isOver(value) && Atomics.compareExchange(values, at, value, 0n) === value
  }
  const place = (id: bigint): number | undefined => {
    for (;;) {
      const at = positionOf(id, keys, (position) => isOver(Atomics.load(values, position)))
      if (at === undefined) return undefined
      const found = Atomics.load(keys, at)
      if (found === id) return at
      // The value is reset before the key, so that a thread that still counts for the previous key fails to replace it.
      // A cell without a key already has the value 0; resetting it could undo the count of a thread that took it first.
      if (found !== 0n && !reset(at)) continue
      if (Atomics.compareExchange(keys, at, found, id) === found) return at
    }
  }
  return (key) => {
    const id = hash('sha256', key, 'buffer').readBigUInt64LE() || 1n
    let at = place(id)
    const own = new BigUint64Array(1)
    const locate = (): [BigUint64Array, number] => {
      if (at !== undefined && Atomics.load(keys, at) !== id) at = place(id)
      return at === undefined ? [own, 0] : [values, at]
    }
    return {
      load: () => Atomics.load(...locate()),
      swap: (before, after) => Atomics.compareExchange(...locate(), before, after) === before,
    }
  }
}

/**
 * Returns the position of a key. If the key has none, returns the first position that it can take; undefined if there
 * is none.
 */
function positionOf(id: bigint, keys: BigUint64Array, mayReuse: (at: number) => boolean): number | undefined {
  const start = Number(id % BigInt(cellCount))
  let reusable: number | undefined
  for (let probe = 0; probe < maxProbes; probe++) {
    const at = (start + probe) % cellCount
    const found = Atomics.load(keys, at)
    if (found === id) return at
    if (found === 0n) return reusable ?? at
    if (reusable === undefined && mayReuse(at)) reusable = at
  }
  return reusable
}
