/** Bytes from a cryptographic source; injected, so that tests can drive it. */
export type RandomBytes = (size: number) => Buffer

/** An opaque, unguessable id: a type prefix such as `tsk_` and 128 random bits. */
export const newId = (prefix: 'tsk' | 'whk' | 'dlv' | 'msg' | 'cli' | 'key', random: RandomBytes): string =>
  `${prefix}_${random(16).toString('base64url')}`
