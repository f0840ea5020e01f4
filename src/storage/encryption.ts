import { createCipheriv, createDecipheriv, createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto'

/**
 * Encrypts secrets at rest with AES-256-GCM under the service's master key; the location is the additional authenticated
 * data.
 */
export interface Sealer {
  seal: (plain: string, place: string) => string
  /** Throws `Unsealable` when the text was altered, moved to another location, or sealed under another key. */
  open: (sealed: string, place: string) => string
  /** A keyed digest for secrets that are only ever compared. */
  digest: (secret: string, place: string) => string
}

/** Thrown when a secret cannot be decrypted; names its location. */
export class Unsealable extends Error {
  /** Exit code 2, as for any configuration error: at startup the cause is a wrong master key. */
  readonly exitCode = 2
  constructor(place: string, cause: unknown) {
    super(`${place} cannot be unsealed: the master key (PLINTH_MASTER_KEY) is not the one it was sealed under`, {
      cause,
    })
  }
}

const ivBytes = 12
const tagBytes = 16

/** Creates a sealer from a 32-byte master key; each purpose uses its own key, derived by HKDF (RFC 5869). */
export function sealer(masterKey: Uint8Array, random: (size: number) => Uint8Array): Sealer {
  // Key objects, because raw bytes would be validated and copied on each use, which costs several times the cipher itself.
  const derive = (purpose: string) =>
    createSecretKey(Buffer.from(hkdfSync('sha256', masterKey, '', `plinth ${purpose}`, 32)))
  const sealKey = derive('seal v1')
  const digestKey = derive('digest v1')
  return {
    seal: (plain, place) => {
      const iv = random(ivBytes)
      const cipher = createCipheriv('aes-256-gcm', sealKey, iv).setAAD(Buffer.from(place))
      const body = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()])
      return `v1.${Buffer.concat([iv, body, cipher.getAuthTag()]).toString('base64url')}`
    },
    open: (sealed, place) => {
      try {
        return opened(sealKey, Buffer.from(sealed.slice(3), 'base64url'), place)
      } catch (cause) {
        throw new Unsealable(place, cause)
      }
    },
    digest: (secret, place) => createHmac('sha256', digestKey).update(`${place}\0${secret}`).digest('base64url'),
  }
}

function opened(key: KeyObject, bytes: Buffer, place: string): string {
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, ivBytes), { authTagLength: tagBytes })
  decipher.setAAD(Buffer.from(place)).setAuthTag(bytes.subarray(-tagBytes))
  return decipher.update(bytes.subarray(ivBytes, -tagBytes), undefined, 'utf8') + decipher.final('utf8')
}
