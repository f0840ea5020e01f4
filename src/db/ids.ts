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
export const largestId = 2_147_483_647

/** An integer id to look for: larger ones, which PostgreSQL refuses to compare, become 0, which no row has either. */
export const sought = (id: number): number => (id <= largestId ? id : 0)
