import { createPrivateKey, createPublicKey, type JsonWebKeyInput, type KeyObject, sign } from 'node:crypto'
import { promisify } from 'node:util'
import type { JWK } from 'jose'
import { ExternalSigningKey } from 'oidc-provider'

const signed = promisify(sign)

/**
 * A private key for oidc-provider that never exposes its private JWK: the provider passes in the data to sign. Signs in
 * the thread pool (RFC 7518 §3.3, §3.4, RFC 8037 §3.1); RS256 then blocks the event loop half as long as with Web
 * Crypto.
 */
export class SigningKey extends ExternalSigningKey {
  readonly #jwk: Pick<JWK, 'kid' | 'alg'>
  readonly #privateKey: KeyObject
  readonly #publicKey: KeyObject

  /** Throws if the key is not private. */
  constructor(jwk: JWK) {
    super()
    this.#privateKey = createPrivateKey({ key: jwk, format: 'jwk' } as JsonWebKeyInput)
    this.#publicKey = createPublicKey(this.#privateKey)
    this.#jwk = { kid: jwk.kid, alg: jwk.alg }
  }

  override get kid() {
    return this.#jwk.kid
  }

  override get alg() {
    return this.#jwk.alg
  }

  override keyObject() {
    return this.#publicKey
  }

  override sign(data: Uint8Array): Promise<Buffer> {
    if (this.alg === 'EdDSA') return signed(null, data, this.#privateKey)
    // JWS requires ES256 signatures in a fixed-length format (RFC 7518 §3.4) instead of DER. RSA ignores this option.
    return signed('sha256', data, { key: this.#privateKey, dsaEncoding: 'ieee-p1363' })
  }
}
