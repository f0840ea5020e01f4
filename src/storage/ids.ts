/** Bytes from a cryptographic source; injected, so that tests can drive it. */
export type RandomBytes = (size: number) => Buffer

/** An opaque, unguessable id: a type prefix such as `tsk_` and 128 random bits. */
export const newId = (prefix: 'tsk' | 'whk' | 'cli' | 'key', random: RandomBytes): string => `${prefix}_${bits(random)}`

const bits = (random: RandomBytes): string => random(16).toString('base64url')

/**
 * An id just as unguessable, behind the instant (ISO 8601) in nine digits of base 32, so that ids sort by age: rows that are
 * added together lie together in each index, which halves the time of adding them.
 */
export const newOrderedId = (prefix: 'dlv' | 'msg', random: RandomBytes, at: string): string =>
  `${prefix}_${Date.parse(at).toString(32).padStart(9, '0')}${bits(random)}`

/** The largest integer id that PostgreSQL's columns can hold. */
export const maxId = 2_147_483_647

/** An integer id to look for: larger ones, which PostgreSQL refuses to compare, become 0, which no row has either. */
export const idOrNone = (id: number): number => (id <= maxId ? id : 0)

/** An instant, in ms since the epoch, as tables keep it: fixed-width ISO 8601 text in UTC, which sorts by time. */
export const iso = (ms: number): string => new Date(ms).toISOString()

const poolBytes = 4_096
/** As many as an id takes; secrets are longer, and come from the source itself. */
const maxPooled = 16

/** Random bytes of ids, taken from the source many at a time, since asking it costs more than the bytes do; none is handed out twice. */
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
