/** Returns cryptographically random bytes; injected, so that tests can control them. */
export type RandomBytes = (size: number) => Buffer

/** Creates an opaque, unguessable id: a type prefix such as `tsk_` and 128 random bits. */
export const newId = (prefix: 'tsk' | 'whk' | 'cli' | 'key' | 'nod', random: RandomBytes): string =>
  `${prefix}_${bits(random)}`

const bits = (random: RandomBytes): string => random(16).toString('base64url')

/**
 * Like `newId`, but the id starts with the instant `at` (ISO 8601) as nine base-32 digits, so that ids sort by age.
 * Rows inserted together are then adjacent in indexes on the id, which halves the insert time.
 */
export const newOrderedId = (prefix: 'dlv' | 'fil' | 'job' | 'msg', random: RandomBytes, at: string): string =>
  `${prefix}_${Date.parse(at).toString(32).padStart(9, '0')}${bits(random)}`

/** The largest id that an `integer` column of PostgreSQL can hold. */
export const maxId = 2_147_483_647

/** The types of row ids: integers, which the database assigns, or UUIDs, which the service assigns. */
export type IdType = 'integer' | 'uuid'

/** The id of a row; UUIDs are in canonical lower case. */
export type RowId = number | string

/** The JavaScript type of ids of an id type. */
export type IdOf<Ids extends IdType> = Ids extends 'uuid' ? string : number

/** Returns the id, or 0, which no row has, if it is an integer too large for PostgreSQL's `integer` columns. */
export const idOrNone = <Id extends RowId>(id: Id): Id => (typeof id === 'number' && id > maxId ? (0 as Id) : id)

/** An id that sorts before the id of every row. */
export const idBeforeAll: Readonly<Record<IdType, RowId>> = {
  integer: 0,
  uuid: '00000000-0000-0000-0000-000000000000',
}

/** Compares ids of the same type in the order in which both databases sort them. */
export const compareIds = (one: RowId, other: RowId): number => (one < other ? -1 : one > other ? 1 : 0)

/**
 * Formats an instant (ms since the epoch) as stored in tables: fixed-width ISO 8601 text in UTC, which sorts by time.
 */
export const iso = (ms: number): string => new Date(ms).toISOString()

/**
 * Masks for the 74 random bits of a UUID version 7 (12 in `rand_a`, 62 in `rand_b`), and for only the bits in `rand_b`.
 */
const maxTail = (1n << 74n) - 1n
const randB = (1n << 62n) - 1n

/**
 * Returns a source of UUIDs version 7 (RFC 9562 §5.7), in canonical lower case. Each one is greater than the one
 * before, even in the same millisecond or after the clock was set back: the random bits are then increased by a random
 * amount (§6.2, method 2).
 */
export function uuidSource({ now, random }: { now: () => number; random: RandomBytes }): () => string {
  const newTail = () => BigInt(`0x${random(10).toString('hex')}`) & maxTail
  let [ms, tail] = [-1, 0n]
  return () => {
    const at = Math.floor(now())
    if (at > ms) [ms, tail] = [at, newTail()]
    else tail += 1n + BigInt(random(4).readUInt32BE())
    if (tail > maxTail) [ms, tail] = [ms + 1, newTail()]
    const time = ms.toString(16).padStart(12, '0')
    const middle = (0x7000n | (tail >> 62n)).toString(16)
    const rest = ((0b10n << 62n) | (tail & randB)).toString(16)
    return `${time.slice(0, 8)}-${time.slice(8)}-${middle}-${rest.slice(0, 4)}-${rest.slice(4)}`
  }
}

const poolBytes = 4_096
/** The number of random bytes in an id; larger requests, such as those for secrets, bypass the pool. */
const maxPooled = 16

/**
 * Takes the bytes of ids from a pool, because each call to the source has a high fixed cost. Never returns a byte
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
