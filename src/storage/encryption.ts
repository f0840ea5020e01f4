import { createCipheriv, createDecipheriv, createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto'

/**
 * The functions that encrypt secrets at rest with AES-256-GCM, under data keys that the master key encrypts. Each
 * secret is bound to its location, which is passed as additional authenticated data (AAD).
 */
export interface Sealer {
  /**
   * Returns `v2.<key id>.<text>`, with the encrypted text in base64url. For the first data key, returns `v1.<text>`,
   * the only format that nodes of earlier releases can read during an upgrade.
   */
  seal: (plain: string, location: string) => string
  /**
   * Throws `Unsealable` if the text was altered, moved to a different location, or encrypted under a different key;
   * throws `UnknownDataKey` if its data key is not loaded.
   */
  open: (sealed: string, location: string) => string
  /** A keyed digest (HMAC-SHA-256), for secrets that are only compared. */
  digest: (secret: string, location: string) => string
}

/** Thrown if a secret cannot be decrypted; the message includes the secret's location. */
export class Unsealable extends Error {
  /**
   * Exit code 2 means a configuration error: at startup, a secret that cannot be decrypted indicates a wrong master
   * key.
   */
  readonly exitCode = 2
  constructor(location: string, cause: unknown) {
    super(`${location} cannot be decrypted: PLINTH_MASTER_KEY is not the master key that encrypted it`, {
      cause,
    })
  }
}

/** Thrown if a secret was encrypted with a data key that is not loaded; the message includes the secret's location. */
export class UnknownDataKey extends Error {
  override name = 'UnknownDataKey'
  constructor(location: string, id: number) {
    super(`${location} cannot be decrypted: this process has not loaded data key ${id}`)
  }
}

/** The keys that encrypt secrets and compute their digests. */
export interface DataKeys {
  /** The id of the key that encrypts new secrets. */
  sealId: number
  /** All keys that decrypt secrets, by id. */
  sealKeys: ReadonlyMap<number, KeyObject>
  digestKey: KeyObject
}

const ivBytes = 12
const tagBytes = 16
/** The id of the data key for secrets in the `v1.` format, which contains no key id. */
export const firstSealId = 1

/**
 * Creates a sealer. `keys` returns the current data keys. `onUnknown` is called when a secret needs a data key that is
 * not loaded.
 */
export function sealerWith(
  keys: () => DataKeys,
  random: (size: number) => Uint8Array,
  onUnknown: () => void = () => {},
): Sealer {
  return {
    seal: (plain, location) => {
      const { sealId, sealKeys } = keys()
      const format = sealId === firstSealId ? 'v1.' : `v2.${sealId}.`
      return `${format}${encrypt(sealKeys.get(sealId) as KeyObject, plain, location, random)}`
    },
    open: (sealed, location) => {
      const { id, body } = partsOf(sealed)
      const key = keys().sealKeys.get(id)
      if (key === undefined) {
        onUnknown()
        throw new UnknownDataKey(location, id)
      }
      return decrypt(key, body, location)
    },
    digest: (secret, location) =>
      createHmac('sha256', keys().digestKey).update(`${location}\0${secret}`).digest('base64url'),
  }
}

/** Creates a sealer from only a 32-byte master key, with the data keys that `derivedKeys` returns. */
export function sealer(masterKey: Uint8Array, random: (size: number) => Uint8Array): Sealer {
  const { seal, digest } = derivedKeys(masterKey)
  const keys = {
    sealId: firstSealId,
    sealKeys: new Map([[firstSealId, keyObject(seal)]]),
    digestKey: keyObject(digest),
  }
  return sealerWith(() => keys, random)
}

/** Splits a sealed text into the id of its data key and the encrypted part. The `v1.` format implies the first key. */
function partsOf(sealed: string): { id: number; body: string } {
  const [, id, body] = /^v2\.(\d{1,9})\.(.*)$/s.exec(sealed) ?? []
  return id === undefined || body === undefined ? { id: firstSealId, body: sealed.slice(3) } : { id: Number(id), body }
}

/**
 * Returns the keys that releases without data keys derived from the master key (HKDF, RFC 5869). They keep secrets and
 * digests from those releases valid.
 */
export const derivedKeys = (masterKey: Uint8Array) => ({
  seal: derive(masterKey, 'seal v1'),
  digest: derive(masterKey, 'digest v1'),
})

/** Derives a 32-byte key for one purpose from the master key. */
export const derive = (masterKey: Uint8Array, purpose: string): Buffer =>
  Buffer.from(hkdfSync('sha256', masterKey, '', `plinth ${purpose}`, 32))

/**
 * Returns a KeyObject, because raw bytes would be validated and copied on each use, which takes several times as long
 * as encrypting.
 */
export const keyObject = (bytes: Uint8Array): KeyObject => createSecretKey(bytes)

/** Returns a short digest that distinguishes master keys without revealing anything about them. */
export const fingerprintOf = (masterKey: Uint8Array): string =>
  createHmac('sha256', derivedKeys(masterKey).digest).update('backup\0fingerprint').digest('base64url').slice(0, 16)

/** Encrypts text with AES-256-GCM; returns base64url. */
export function encrypt(key: KeyObject, plain: string, location: string, random: (size: number) => Uint8Array): string {
  const iv = random(ivBytes)
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(location))
  const body = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()])
  return Buffer.concat([iv, body, cipher.getAuthTag()]).toString('base64url')
}

/** Decrypts text that `encrypt` returned. Throws `Unsealable` if it cannot be decrypted. */
export function decrypt(key: KeyObject, body: string, location: string): string {
  try {
    const bytes = Buffer.from(body, 'base64url')
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, ivBytes), { authTagLength: tagBytes })
    decipher.setAAD(Buffer.from(location)).setAuthTag(bytes.subarray(-tagBytes))
    return decipher.update(bytes.subarray(ivBytes, -tagBytes), undefined, 'utf8') + decipher.final('utf8')
  } catch (cause) {
    throw new Unsealable(location, cause)
  }
}
