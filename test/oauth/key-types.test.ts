import assert from 'node:assert/strict'
import { createSecretKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import { algorithmOf, usableKeys } from '../../src/oauth/keys/key-algorithms.ts'
import { tokenVerifier } from '../../src/oauth/tokens/verify.ts'
import type { Database } from '../../src/storage/database.ts'
import { onSqlite } from '../support/engines.ts'
import { encoded, fields, hmac, own, pem, signed, start } from './forgery.ts'
import { clock, issuer, sealer } from './support.ts'

const pairs = {
  RS256: own,
  ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  EdDSA: generateKeyPairSync('ed25519'),
}
const unfit = {
  'RSA of 1024 bits': generateKeyPairSync('rsa', { modulusLength: 1_024 }),
  'P-384': generateKeyPairSync('ec', { namedCurve: 'P-384' }),
  secp256k1: generateKeyPairSync('ec', { namedCurve: 'secp256k1' }),
  Ed448: generateKeyPairSync('ed448'),
  'RSA-PSS': generateKeyPairSync('rsa-pss', { modulusLength: 2_048 }),
}
const invalid = { refused: 'AUTH_TOKEN_INVALID' }
const secret = 'a shared secret of more than 32 bytes'

onSqlite((engine) => {
  let db: Database
  before(async () => {
    db = await engine.database()
    const scopes = ['reports:read', 'books:write']
    await createClient(db, sealer, builtIn.scopes, {
      id: 'alpha',
      name: 'Alpha',
      scopes,
      grants: ['client_credentials'],
    })
  })
  after(() => db.close())

  const verifier = (keys: Record<string, KeyObject>, sharedSecret: string | null = null) =>
    tokenVerifier({
      ...{ issuer, audience: issuer, db, now: clock(start).now },
      keys: { publicKeys: new Map(Object.entries(keys)) },
      sharedSecret: sharedSecret === null ? null : createSecretKey(Buffer.from(sharedSecret)),
    })
  const publicKeys = Object.fromEntries(Object.entries(pairs).map(([alg, { publicKey }]) => [alg, publicKey]))

  describe('algorithm verification (RFC 8725 §3.1)', () => {
    for (const [alg, { privateKey }] of Object.entries(pairs)) {
      it(`accepts ${alg} with a matching key`, async () => {
        assert.ok('caller' in (await verifier(publicKeys)(await signed({}, { alg, kid: alg }, privateKey))))
      })
      for (const kid of Object.keys(pairs).filter((name) => name !== alg)) {
        it(`T-JWT-06 AUTH_TOKEN_INVALID for ${alg} with the kid of an ${kid} key`, async () => {
          assert.deepEqual(await verifier(publicKeys)(await signed({}, { alg, kid }, privateKey)), invalid)
        })
      }
    }

    it('T-JWT-06 AUTH_TOKEN_INVALID for ES256 with r and s set to zero, and for a truncated signature', async () => {
      const input = `${encoded({ alg: 'ES256', typ: 'JWT', kid: 'ES256' })}.${encoded(fields)}`
      for (const bytes of [64, 63, 0]) {
        const token = `${input}.${Buffer.alloc(bytes).toString('base64url')}`
        assert.deepEqual(await verifier(publicKeys)(token), invalid)
      }
    })

    for (const [what, { publicKey }] of Object.entries(unfit)) {
      it(`T-JWT-06 algorithmOf returns undefined for ${what}`, () => assert.equal(algorithmOf(publicKey), undefined))
    }
  })

  describe('HS256', () => {
    const hs256 = (key: string, header = {}) => hmac(key, header)

    it('T-JWT-02 AUTH_TOKEN_INVALID without a shared secret, and with a different shared secret', async () => {
      assert.deepEqual(await verifier(publicKeys)(hs256(secret)), invalid)
      assert.deepEqual(await verifier(publicKeys, `${secret}!`)(hs256(secret)), invalid)
    })

    it('accepts a token signed with the shared secret and returns the token’s scopes', async () => {
      const verification = await verifier(publicKeys, secret)(hs256(secret))
      assert.ok('caller' in verification)
      assert.deepEqual([...verification.caller.scopes], ['reports:read', 'books:write'])
    })

    const forms: [what: string, key: string | Buffer][] = [
      ['PEM', pem],
      ['PEM with a leading space', ` ${pem}`],
      ['PEM with CRLF line ends', pem.replaceAll('\n', '\r\n')],
      ['DER', own.publicKey.export({ type: 'spki', format: 'der' })],
      ['JWK', JSON.stringify(own.publicKey.export({ format: 'jwk' }))],
    ]
    for (const [what, key] of forms) {
      it(`T-JWT-02 AUTH_TOKEN_INVALID for a token signed with the public key (${what}) as the HMAC secret, even if a shared secret is configured`, async () => {
        assert.deepEqual(await verifier(publicKeys, secret)(hmac(key, { kid: 'RS256' })), invalid)
      })
    }
  })

  describe('usableKeys', () => {
    const jwk = (key: KeyObject, more: object = {}) => ({ ...key.export({ format: 'jwk' }), kid: 'k', ...more })
    const rows: [what: string, key: object | null, usable: boolean][] = [
      ['an RSA key', jwk(own.publicKey), true],
      ['an RSA key for RS256 signatures', jwk(own.publicKey, { use: 'sig', alg: 'RS256' }), true],
      ['a key with key_ops verify', jwk(own.publicKey, { key_ops: ['verify'] }), true],
      ['an encryption key (T-JWT-06)', jwk(own.publicKey, { use: 'enc' }), false],
      ['a key for a different algorithm', jwk(own.publicKey, { alg: 'RS512' }), false],
      ['a key with key_ops encrypt', jwk(own.publicKey, { key_ops: ['encrypt'] }), false],
      ['a 1024-bit RSA key (T-JWT-06)', jwk(unfit['RSA of 1024 bits'].publicKey), false],
      ['a key without a kid', jwk(own.publicKey, { kid: undefined }), false],
      ['a symmetric key', { kty: 'oct', k: 'AAAA', kid: 'k' }, false],
      ['an EC key whose point is not on the curve', { kty: 'EC', crv: 'P-256', x: 'AAAA', y: 'AAAA', kid: 'k' }, false],
      ['a key of an unknown type', { kty: 'XYZ', kid: 'k' }, false],
      ['null', null, false],
    ]
    for (const [what, key, usable] of rows) {
      it(`${usable ? 'accepts' : 'ignores'} ${what}`, () => {
        assert.equal(usableKeys({ keys: [key] }).size, usable ? 1 : 0)
      })
    }

    it('throws for a value that is not a JWK set', () => {
      for (const set of [null, {}, { keys: {} }]) assert.throws(() => usableKeys(set), /not a JWK set/)
    })
  })
})
