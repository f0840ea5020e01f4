import { createCipheriv, createDecipheriv, createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto'

/** Keeps secrets at rest: AES-256-GCM under the service's master key, bound to the place it is stored at. */
export interface Sealer {
  seal: (plain: string, place: string) => string
  /** Throws `Unsealable` when the text was altered, moved to another place, or sealed under another key. */
  open: (sealed: string, place: string) => string
  /** A keyed digest for secrets that are only ever compared. */
  digest: (secret: string, place: string) => string
}

/** Thrown for what cannot be unsealed; says at which place it is kept. */
export class Unsealable extends Error {
  /** As of wrong settings: at the start the master key is the cause. */
  readonly exitCode = 2
  constructor(place: string, cause: unknown) {
    super(`${place} cannot be unsealed: the master key (PLINTH_MASTER_KEY) is not the one it was sealed under`, {
      cause,
    })
  }
}

const ivBytes = 12
const tagBytes = 16

/** Makes a sealer from a master key of 32 bytes; each purpose uses a key of its own, derived by HKDF (RFC 5869). */
export function sealer(masterKey: Uint8Array, random: (size: number) => Uint8Array): Sealer {
  // Key objects: bytes would be looked at and copied anew on each use, which costs several times the work itself.
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
