import { createCipheriv, createDecipheriv, createHmac, createSecretKey, hkdfSync } from 'node:crypto'

/** Keeps secrets at rest: AES-256-GCM under the service's master key, bound to the place it is stored at. */
export interface Sealer {
  seal: (plain: string, place: string) => string
  /** Throws when the text was altered, moved to another place, or sealed under another key. */
  open: (sealed: string, place: string) => string
  /** A keyed digest for secrets that are only ever compared. */
  digest: (secret: string, place: string) => string
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
      const bytes = Buffer.from(sealed.slice(3), 'base64url')
      const decipher = createDecipheriv('aes-256-gcm', sealKey, bytes.subarray(0, ivBytes), {
        authTagLength: tagBytes,
      })
      decipher.setAAD(Buffer.from(place)).setAuthTag(bytes.subarray(-tagBytes))
      return decipher.update(bytes.subarray(ivBytes, -tagBytes), undefined, 'utf8') + decipher.final('utf8')
    },
    digest: (secret, place) => createHmac('sha256', digestKey).update(`${place}\0${secret}`).digest('base64url'),
  }
}
