/** Returns cryptographically random bytes; injected, so that tests can control them. */
export type RandomBytes = (size: number) => Buffer

/** Creates an opaque, unguessable id: a type prefix such as `tsk_` and 128 random bits. */
export const newId = (prefix: 'tsk' | 'whk' | 'cli' | 'key', random: RandomBytes): string => `${prefix}_${bits(random)}`

const bits = (random: RandomBytes): string => random(16).toString('base64url')

/**
 * Like `newId`, but the id starts with the instant `at` (ISO 8601) as nine base-32 digits, so that ids sort by age. Rows
 * inserted together are then adjacent in each index, which halves the insert time.
 */
export const newOrderedId = (prefix: 'dlv' | 'msg', random: RandomBytes, at: string): string =>
  `${prefix}_${Date.parse(at).toString(32).padStart(9, '0')}${bits(random)}`

/** The largest integer id that PostgreSQL's columns can hold. */
export const maxId = 2_147_483_647

/** Maps ids that are too large for PostgreSQL's comparisons to 0, because no row has the id 0. */
export const idOrNone = (id: number): number => (id <= maxId ? id : 0)

/** Formats an instant (ms since the epoch) as stored in tables: fixed-width ISO 8601 text in UTC, which sorts by time. */
export const iso = (ms: number): string => new Date(ms).toISOString()

const poolBytes = 4_096
/** The number of random bytes in an id; larger requests, such as those for secrets, bypass the pool. */
const maxPooled = 16

/**
 * Serves ids from a pool of random bytes, because each call to the source has a high fixed cost. Never uses a byte
 * twice.
 */
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
