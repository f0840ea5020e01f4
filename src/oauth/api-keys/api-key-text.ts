import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

const prefix = 'plk_'
const form = /^plk_([A-Za-z0-9_-]{43})([A-Za-z0-9_-]{6})$/
const secretBytes = 32

/** The key's own check: a mistyped key, or any other text, is known without a look into the database. */
function checksum(secret: string): string {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(crc32(prefix + secret))
  return bytes.toString('base64url')
}

/** A new key: its prefix, 256 random bits and a checksum, so that scanners of source code can find leaked ones. */
export function newApiKey(random: (size: number) => Uint8Array = randomBytes): string {
  const secret = Buffer.from(random(secretBytes)).toString('base64url')
  return prefix + secret + checksum(secret)
}

/** Whether a text can be a key at all. */
export function isApiKey(text: string): boolean {
  const [, secret, check] = form.exec(text) ?? []
  return secret !== undefined && check === checksum(secret)
}

/** What is kept of a key: it is random, so its plain SHA-256 tells nobody anything. */
export const apiKeyHash = (key: string): string => hash('sha256', key, 'hex')

/** The part of a key that people may see to tell keys apart. */
export const apiKeyHint = (key: string): string => key.slice(0, prefix.length + 6)
