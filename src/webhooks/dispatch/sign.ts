import { createHmac, createSecretKey, type KeyObject, sign } from 'node:crypto'

const PREFIX = 'whsec_'
const SHORTEST_KEY_BYTES = 24

/** Creates an endpoint secret: `whsec_` and the base64 of 32 random bytes. */
export function newSecret(random: (size: number) => Buffer): string {
  return PREFIX + random(32).toString('base64')
}

/**
 * Returns the `webhook-signature` value of Standard Webhooks 1.0: a `v1` signature for each secret (text or key) and a
 * `v1a` signature for each Ed25519 private key, separated by spaces. Throws a TypeError if a secret is malformed.
 */
export function signature(
  keys: { secrets: readonly (string | KeyObject)[]; privateKeys?: readonly KeyObject[] },
  message: { id: string; timestampSeconds: number; body: Uint8Array },
): string {
  const content = Buffer.concat([Buffer.from(`${message.id}.${message.timestampSeconds}.`), message.body])
  const shared = keys.secrets.map(
    (secret) =>
      `v1,${createHmac('sha256', typeof secret === 'string' ? secretKey(secret) : secret)
        .update(content)
        .digest('base64')}`,
  )
  const asymmetric = (keys.privateKeys ?? []).map((key) => `v1a,${sign(null, content, key).toString('base64')}`)
  return [...shared, ...asymmetric].join(' ')
}

/**
 * Creates the HMAC key of a secret. Callers should cache it, because creating a key takes longer than signing. Throws a
 * TypeError if the secret is malformed.
 */
export function secretKey(secret: string): KeyObject {
  const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
  if (!secret.startsWith(PREFIX) || key.length < SHORTEST_KEY_BYTES) throw new TypeError('not a webhook secret')
  return createSecretKey(key)
}
