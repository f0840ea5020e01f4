import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

const prefix = 'plk_'
const form = /^plk_([A-Za-z0-9_-]{43})([A-Za-z0-9_-]{6})$/
const secretBytes = 32

/** Computes the checksum that detects mistyped keys without a database query. */
function checksum(secret: string): string {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(crc32(prefix + secret))
  return bytes.toString('base64url')
}

/** Creates a key from a prefix, 256 random bits and a checksum. This format lets secret scanners find leaked keys. */
export function newApiKey(random: (size: number) => Uint8Array = randomBytes): string {
  const secret = Buffer.from(random(secretBytes)).toString('base64url')
  return prefix + secret + checksum(secret)
}

/** Returns whether the text is a well-formed key. */
export function isApiKey(text: string): boolean {
  const [, secret, check] = form.exec(text) ?? []
  return secret !== undefined && check === checksum(secret)
}

/** Returns the digest under which a key is stored; plain SHA-256 is enough because keys are random. */
export const apiKeyHash = (key: string): string => hash('sha256', key, 'hex')

/** Returns the first ten characters of a key, which help administrators tell keys apart. */
export const apiKeyHint = (key: string): string => key.slice(0, prefix.length + 6)
