import { createCipheriv, createDecipheriv, createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto'

/**
 * Encrypts secrets at rest with AES-256-GCM under the service's master key. Each secret is bound to its location, which is
 * passed as additional authenticated data (AAD).
 */
export interface Sealer {
  seal: (plain: string, location: string) => string
  /** Throws `Unsealable` if the text was altered, moved to a different location, or encrypted under a different key. */
  open: (sealed: string, location: string) => string
  /** A keyed digest (HMAC-SHA-256), for secrets that are only compared. */
  digest: (secret: string, location: string) => string
}

/** Thrown if a secret cannot be decrypted; the message includes the secret's location. */
export class Unsealable extends Error {
  /**
   * Exit code 2 stands for a configuration error. At startup, a secret that cannot be decrypted means that the master
   * key is wrong.
   */
  readonly exitCode = 2
  constructor(location: string, cause: unknown) {
    super(`${location} cannot be decrypted: PLINTH_MASTER_KEY is not the master key that encrypted it`, {
      cause,
    })
  }
}

const ivBytes = 12
const tagBytes = 16

/** Creates a sealer from a 32-byte master key. Encryption and digests have separate keys, derived with HKDF (RFC 5869). */
export function sealer(masterKey: Uint8Array, random: (size: number) => Uint8Array): Sealer {
  // KeyObjects, because raw bytes would be validated and copied on each use, which takes several times as long as the
  // cipher.
  const derive = (purpose: string) =>
    createSecretKey(Buffer.from(hkdfSync('sha256', masterKey, '', `plinth ${purpose}`, 32)))
  const sealKey = derive('seal v1')
  const digestKey = derive('digest v1')
  return {
    seal: (plain, location) => {
      const iv = random(ivBytes)
      const cipher = createCipheriv('aes-256-gcm', sealKey, iv).setAAD(Buffer.from(location))
      const body = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()])
      return `v1.${Buffer.concat([iv, body, cipher.getAuthTag()]).toString('base64url')}`
    },
    open: (sealed, location) => {
      try {
        return decrypted(sealKey, Buffer.from(sealed.slice(3), 'base64url'), location)
      } catch (cause) {
        throw new Unsealable(location, cause)
      }
    },
    digest: (secret, location) => createHmac('sha256', digestKey).update(`${location}\0${secret}`).digest('base64url'),
  }
}

function decrypted(key: KeyObject, bytes: Buffer, location: string): string {
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, ivBytes), { authTagLength: tagBytes })
  decipher.setAAD(Buffer.from(location)).setAuthTag(bytes.subarray(-tagBytes))
  return decipher.update(bytes.subarray(ivBytes, -tagBytes), undefined, 'utf8') + decipher.final('utf8')
}
