import assert from 'node:assert/strict'
import { createHmac, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { CompactSign, SignJWT } from 'jose'
import { createClient, revokeClient } from '../../src/auth/clients.ts'
import { records } from '../../src/auth/records.ts'
import { tokenVerifier } from '../../src/auth/verify.ts'
import { builtIn } from '../../src/built-in.ts'
import type { Database } from '../../src/db/open.ts'
import { forEachEngine } from '../support/engines.ts'
import { clock, issuer, sealer } from './support.ts'

const start = Date.parse('2026-11-21T10:00:00.000Z')
const iat = start / 1_000
const kid = 'own'
const own = rsa()
const keys = { publicKeys: new Map([[kid, own.publicKey]]) }
const claims = { sub: 'alpha', client_id: 'alpha', scope: 'reports:read books:write', iss: issuer, aud: issuer, iat }
const fields = { ...claims, exp: iat + 900, jti: 'token-1' }
const invalid = { refused: 'AUTH_TOKEN_INVALID' }
const expired = { refused: 'AUTH_TOKEN_EXPIRED' }

function rsa(modulusLength = 2_048) {
  return generateKeyPairSync('rsa', { modulusLength })
}

type Change = Record<string, unknown>

/** Signs any claims at all, which no proper library would. */
function signed(change: Change = {}, header: Change = {}, key: KeyObject = own.privateKey): Promise<string> {
  return signedText(JSON.stringify({ ...fields, ...change }), header, key)
}

function signedText(payload: string, header: Change = {}, key: KeyObject = own.privateKey): Promise<string> {
  const protectedHeader = { alg: 'RS256', typ: 'JWT', kid, ...header }
  return new CompactSign(Buffer.from(payload)).setProtectedHeader(protectedHeader).sign(key)
}

const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

function unsigned(header: Change, signature = ''): string {
  return `${encoded({ typ: 'JWT', kid, ...header })}.${encoded(fields)}.${signature}`
}

/** Signs under our key what a signing library refuses to make. */
function signedAnyhow(header: Change): string {
  const input = `${encoded({ alg: 'RS256', typ: 'JWT', kid, ...header })}.${encoded(fields)}`
  return `${input}.${sign('sha256', Buffer.from(input), own.privateKey).toString('base64url')}`
}

function hmac(secret: string | Buffer, header: Change = {}): string {
  const input = `${encoded({ alg: 'HS256', typ: 'JWT', kid, ...header })}.${encoded(fields)}`
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`
}

const pem = own.publicKey.export({ type: 'spki', format: 'pem' }).toString()
const other = rsa()

/** Wrong tokens by the threat they stand for. */
const attacks: Record<string, () => string | Promise<string>> = {
  'T-JWT-01 alg none': () => unsigned({ alg: 'none' }),
  'T-JWT-01 alg None': () => unsigned({ alg: 'None' }),
  'T-JWT-01 alg nOnE': () => unsigned({ alg: 'nOnE' }),
  'T-JWT-01 alg empty': () => unsigned({ alg: '' }),
  'T-JWT-01 alg missing': () => unsigned({}),
  'T-JWT-01 alg none with a signature': () => unsigned({ alg: 'none' }, 'AAAA'),
  'T-JWT-01 an empty signature': () => unsigned({ alg: 'RS256' }),
  'T-JWT-01 no signature part': () => unsigned({ alg: 'none' }).replace(/\.$/, ''),
  'T-JWT-02 HS256 with the public key as PEM': () => hmac(pem),
  'T-JWT-02 HS256 with the PEM without its last line end': () => hmac(pem.trim()),
  'T-JWT-02 HS256 with the PEM in CRLF': () => hmac(pem.replaceAll('\n', '\r\n')),
  'T-JWT-02 HS256 with the PEM after a space': () => hmac(` ${pem}`),
  'T-JWT-02 HS256 with the DER': () => hmac(own.publicKey.export({ type: 'spki', format: 'der' })),
  'T-JWT-02 HS256 with the JWK': () => hmac(JSON.stringify(own.publicKey.export({ format: 'jwk' }))),
  'T-JWT-02 HS256 under the name RS256': () => hmac(pem, { alg: 'RS256' }),
  'T-JWT-03 an unknown kid': () => signed({}, { kid: 'other' }),
  'T-JWT-03 no kid': () => signed({}, { kid: undefined }),
  'T-JWT-03 a kid that is a path': () => signed({}, { kid: '../../dev/null' }),
  'T-JWT-03 a kid that is SQL': () => signed({}, { kid: "' or 1=1 --" }),
  'T-JWT-03 a kid that is no string': () => signedAnyhow({ kid: [kid] }),
  'T-JWT-03 a kid of 1 MB': () => signed({}, { kid: 'x'.repeat(1_000_000) }),
  'T-JWT-04 jku': () => signed({}, { jku: 'https://evil.example/jwks' }, other.privateKey),
  'T-JWT-04 jwk': () => signed({}, { jwk: other.publicKey.export({ format: 'jwk' }) }, other.privateKey),
  'T-JWT-04 x5u': () => signed({}, { x5u: 'https://evil.example/cert' }, other.privateKey),
  'T-JWT-05 crit with an unknown name': () => signedAnyhow({ crit: ['x'], x: 1 }),
  'T-JWT-05 crit that is empty': () => signedAnyhow({ crit: [] }),
  'T-JWT-05 b64 false': () => signedAnyhow({ b64: false, crit: ['b64'] }),
  'T-JWT-05 a JSON serialization': () => JSON.stringify({ payload: encoded(fields), signature: 'AAAA' }),
  'T-JWT-05 five parts as in a JWE': () => `${unsigned({ alg: 'RSA-OAEP', enc: 'A256GCM' }, 'AAAA')}.AAAA.AAAA`,
  'T-JWT-05 a token in a token': async () => signedText(JSON.stringify(await signed()), { cty: 'JWT' }),
  'T-JWT-06 another key': () => signed({}, {}, other.privateKey),
  'T-JWT-06 another algorithm of the same key': () => signed({}, { alg: 'PS256' }),
  'T-JWT-06 RS512': () => signed({}, { alg: 'RS512' }),
  'T-JWT-08 an ID token': () => signed({ aud: 'alpha', scope: undefined }),
  'T-JWT-08 no typ': () => signed({}, { typ: undefined }),
  'T-JWT-08 another typ': () => signed({}, { typ: 'logout+jwt' }),
  'T-JWT-08 another issuer': () => signed({ iss: 'https://evil.example' }),
  'T-JWT-08 an issuer that starts with ours': () => signed({ iss: `${issuer}/` }),
  'T-JWT-08 issuers as an array': () => signed({ iss: [issuer] }),
  'T-JWT-08 no issuer': () => signed({ iss: undefined }),
  'T-JWT-08 another audience': () => signed({ aud: 'https://other.example' }),
  'T-JWT-08 audiences as an array': () => signed({ aud: [issuer, 'https://other.example'] }),
  'T-JWT-08 no audience': () => signed({ aud: undefined }),
  'T-JWT-08 scope as an array': () => signed({ scope: ['reports:read'] }),
  'T-JWT-08 no scope': () => signed({ scope: undefined }),
  'T-JWT-08 sub as a number': () => signed({ sub: 1 }),
  'T-JWT-08 no client_id': () => signed({ client_id: undefined }),
  'T-JWT-08 no jti': () => signed({ jti: undefined }),
  'T-JWT-08 an unknown client': () => signed({ client_id: 'nobody' }),
  'T-JWT-09 no exp': () => signed({ exp: undefined }),
  'T-JWT-09 exp as a string': () => signed({ exp: `${iat + 900}` }),
  'T-JWT-09 exp with a fraction': () => signed({ exp: iat + 900.5 }),
  'T-JWT-09 exp of 1e400': () => signedText(JSON.stringify(fields).replace(`"exp":${iat + 900}`, '"exp":1e400')),
  'T-JWT-09 nbf in the future': () => signed({ nbf: iat + 31 }),
  'T-JWT-09 iat in the future': () => signed({ iat: iat + 31 }),
  'T-JWT-09 no iat': () => signed({ iat: undefined }),
  'a changed payload': async () => {
    const [header, , signature] = (await signed()).split('.')
    return `${header}.${encoded({ ...fields, scope: 'admin' })}.${signature}`
  },
  'a changed signature': async () => (await signed()).replace(/[^.]{8}$/, 'AAAAAAAA'),
  'a payload that is no object': () => signedText('[]'),
  'a payload that is no JSON': () => signedText('{'),
  'three dots': () => '..',
  'an opaque text': () => 'opaque',
  'an empty text': () => '',
}

forEachEngine((engine) => {
  let db: Database
  before(async () => {
    db = await engine.database()
    const machine = { name: 'Machine', scopes: ['reports:read'], grants: ['client_credentials'] }
    for (const id of ['alpha', 'beta', 'gamma']) await createClient(db, sealer, builtIn.scopes, { ...machine, id })
  })
  after(() => db.close())

  const verifier = (options = {}) => {
    const time = clock(start)
    return { verify: tokenVerifier({ issuer, audience: issuer, keys, db, now: time.now, ...options }), ...time }
  }

  it('the caller for a good token: client, subject and scopes', async () => {
    const { verify } = verifier()
    const caller = { clientId: 'alpha', subject: '17', scopes: new Set(['reports:read', 'books:write']) }
    assert.deepEqual(await verify(await signed({ sub: '17' })), { caller })
    assert.deepEqual(await verify(await signed({ sub: '17' }, { typ: 'at+jwt' })), { caller })
  })

  it('the caller for a header with names that nobody has to know', async () => {
    assert.ok('caller' in (await verifier().verify(signedAnyhow({ x: 1 }))))
  })

  it('the caller for a token made by a library', async () => {
    const token = new SignJWT(fields).setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid })
    assert.ok('caller' in (await verifier().verify(await token.sign(own.privateKey))))
  })

  describe('AUTH_TOKEN_INVALID', () => {
    for (const [attack, token] of Object.entries(attacks)) {
      it(`for ${attack}`, async () => assert.deepEqual(await verifier().verify(await token()), invalid))
    }
  })

  describe('AUTH_TOKEN_EXPIRED', () => {
    it('30 seconds after exp, whether the token is remembered or not', async () => {
      const [known, time] = [verifier(), await signed()]
      for (const [seconds, good] of [
        [0, true],
        [929, true],
        [1, false],
        [1_000, false],
      ] as const) {
        known.pass(seconds)
        const fresh = tokenVerifier({ issuer, audience: issuer, keys, db, now: known.now })
        for (const verify of [known.verify, fresh]) {
          const verification = await verify(time)
          good ? assert.ok('caller' in verification) : assert.deepEqual(verification, expired)
        }
      }
    })

    it('not for a forged, foreign or revoked one that is past its end as well', async () => {
      const past = { exp: iat - 100 }
      const { verify } = verifier()
      assert.deepEqual(await verify(await signed(past)), expired)
      assert.deepEqual(await verify(await signed(past, {}, other.privateKey)), invalid)
      assert.deepEqual(await verify(await signed({ ...past, aud: 'alpha' })), invalid)
    })
  })

  describe('what is remembered', () => {
    it('an answer at once, without a promise, and the same caller for the same token', async () => {
      const { verify } = verifier()
      const token = await signed()
      const [first, second] = await Promise.all([verify(token), verify(token)])
      const third = verify(token)
      assert.ok(!(third instanceof Promise) && 'caller' in third)
      assert.ok('caller' in first && 'caller' in second)
      assert.ok(first.caller === third.caller && second.caller === third.caller)
    })

    it('the same caller after another look into the database', async () => {
      const { verify, pass } = verifier()
      const token = await signed()
      const first = await verify(token)
      pass(30)
      const second = verify(token)
      assert.ok(second instanceof Promise)
      assert.equal(await second, first)
      assert.equal(verify(token), first)
    })

    it('no more tokens than the size given, the oldest forgotten first', async () => {
      const { verify } = verifier({ cacheSize: 2 })
      const tokens = await Promise.all(['1', '2', '3'].map((jti) => signed({ jti })))
      for (const token of tokens) await verify(token)
      assert.deepEqual(
        tokens.map((token) => verify(token) instanceof Promise),
        [true, false, false],
      )
    })

    it('no refusal', async () => {
      const { verify } = verifier()
      const token = await signed({}, {}, other.privateKey)
      await verify(token)
      assert.ok(verify(token) instanceof Promise)
    })
  })

  describe('what was revoked', () => {
    it('the token of a revoked client is refused after 30 seconds, and at once where it is not remembered', async () => {
      const { verify, pass, now } = verifier()
      const token = await signed({ client_id: 'gamma' })
      await verify(token)
      await revokeClient(db, 'gamma')
      pass(29)
      assert.ok('caller' in (await verify(token)))
      pass(1)
      assert.deepEqual(await verify(token), invalid)
      assert.deepEqual(await tokenVerifier({ issuer, audience: issuer, keys, db, now })(token), invalid)
    })

    it('a revoked token is refused, and those of the same client are not', async () => {
      const { verify, pass, now } = verifier()
      const tokens = await Promise.all(['gone', 'kept'].map((jti) => signed({ jti })))
      const adapter = records({ db, now })('ClientCredentials')
      await adapter.upsert('gone', { jti: 'gone' }, 900)
      await adapter.upsert('kept', { jti: 'kept' }, 900)
      for (const token of tokens) assert.ok('caller' in (await verify(token)))
      await adapter.destroy('gone')
      pass(30)
      assert.deepEqual(await verify(tokens[0] as string), invalid)
      assert.ok('caller' in (await verify(tokens[1] as string)))
    })

    it('a token is refused once its grant is gone', async () => {
      const { verify, pass, now } = verifier()
      const of = records({ db, now })
      const token = await signed({ jti: 'granted' })
      await of('Grant').upsert('grant-1', { jti: 'grant-1' }, 900)
      await of('AccessToken').upsert('granted', { jti: 'granted', grantId: 'grant-1' }, 900)
      assert.ok('caller' in (await verify(token)))
      await of('Grant').destroy('grant-1')
      pass(30)
      assert.deepEqual(await verify(token), invalid)
    })
  })

  it('a rejection, not a refusal, when the database fails', async () => {
    const failing = { ...db, prepare: () => ({ all: () => Promise.reject(new Error('connection lost')) }) }
    const { verify } = verifier({ db: failing })
    await assert.rejects(async () => verify(await signed()), /connection lost/)
  })

  it('T-JWT-07 the right caller each time for 2 clients with 1,000 tokens each', async () => {
    const { verify } = verifier()
    const mine = (index: number) => (index % 2 ? 'alpha' : 'beta')
    const tokens = await Promise.all(
      Array.from({ length: 2_000 }, (_, index) => signed({ client_id: mine(index), sub: `${index}`, jti: `${index}` })),
    )
    for (const round of ['verified', 'remembered']) {
      const answers = await Promise.all(tokens.map((token) => verify(token)))
      for (const [index, answer] of answers.entries()) {
        assert.ok('caller' in answer, round)
        assert.deepEqual([answer.caller.clientId, answer.caller.subject], [mine(index), `${index}`])
      }
    }
  })
})

it('the public key that forgeries were made with is the one that verifies', () => {
  assert.ok(createPublicKey(pem).equals(own.publicKey))
})
