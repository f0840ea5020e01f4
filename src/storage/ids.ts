/** Returns bytes from a cryptographic source; injected, so that tests can control it. */
export type RandomBytes = (size: number) => Buffer

/** An opaque, unguessable id: a type prefix such as `tsk_` and 128 random bits. */
export const newId = (prefix: 'tsk' | 'whk' | 'cli' | 'key', random: RandomBytes): string => `${prefix}_${bits(random)}`

const bits = (random: RandomBytes): string => random(16).toString('base64url')

/**
 * An equally unguessable id that starts with the instant (ISO 8601) in nine base-32 digits, so that ids sort by age. Rows
 * added together are then adjacent in each index, which halves the time to insert them.
 */
export const newOrderedId = (prefix: 'dlv' | 'msg', random: RandomBytes, at: string): string =>
  `${prefix}_${Date.parse(at).toString(32).padStart(9, '0')}${bits(random)}`

/** The largest integer id that PostgreSQL's columns can hold. */
export const maxId = 2_147_483_647

/** An integer id to look up. Larger ids, which PostgreSQL rejects in comparisons, become 0, the id of no row. */
export const idOrNone = (id: number): number => (id <= maxId ? id : 0)

/** Formats an instant (ms since the epoch) as tables store it: fixed-width ISO 8601 text in UTC, which sorts by time. */
export const iso = (ms: number): string => new Date(ms).toISOString()

const poolBytes = 4_096
/** The size of an id; longer requests, such as secrets, bypass the pool. */
const maxPooled = 16

/** Returns random bytes for ids from a pool, because a call of the source has a high fixed cost; no byte is used twice. */
export function pooledRandom(source: RandomBytes): RandomBytes {
  let pool: Buffer = Buffer.alloc(0)
  let used = 0
  return (size) => {
    if (size > maxPooled) return source(size)
    if (used + size > pool.length) {
      pool = source(poolBytes)
      used = 0
    }
    used += size
    return pool.subarray(used - size, used)
  }
}
