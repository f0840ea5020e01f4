import assert from 'node:assert/strict'
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { SignJWT } from 'jose'
import { operator } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import { revokeClient } from '../../src/oauth/clients/update.ts'
import { records } from '../../src/oauth/provider/adapter.ts'
import { sweepExpired } from '../../src/oauth/tokens/auth-records.ts'
import { tokenVerifier } from '../../src/oauth/tokens/verify.ts'
import type { Database } from '../../src/storage/database.ts'
import { forEachEngine } from '../support/engines.ts'
import { attacks, fields, iat, keys, kid, other, own, pem, signed, signedAnyhow, start } from './forgery.ts'
import { clock, issuer, sealer } from './support.ts'

const invalid = { refused: 'AUTH_TOKEN_INVALID' }
const expired = { refused: 'AUTH_TOKEN_EXPIRED' }

/** Adds users 1 to `count`; tokens for all other users are rejected. */
async function addUsers(db: Database, count: number): Promise<void> {
  const at = new Date(start).toISOString()
  const rows = Array.from({ length: count }, (_, n) => {
    const [name, email] = [`User ${n}`, `user${n}@example.com`]
    return { name, nameKey: name, email, emailKey: email, revision: 1, createdAt: at, updatedAt: at }
  })
  await db.write((tx) => tx.insertInto('users').values(rows).execute())
}

/** Stores the records that the token endpoint would store for user tokens with these ids. */
async function record(db: Database, ...ids: string[]): Promise<void> {
  const nothing = { payload: '{}', grantId: null, uid: null, userCode: null, userId: null, consumedAt: null }
  const rows = ids.map((id) => ({
    kind: 'AccessToken',
    id,
    expiresAt: new Date(start + 900_000).toISOString(),
    ...nothing,
  }))
  await db.write((tx) => tx.insertInto('authRecords').values(rows).execute())
}

forEachEngine((engine) => {
  let db: Database
  before(async () => {
    db = await engine.database()
    const machine = { name: 'Machine', scopes: ['reports:read', 'books:write'], grants: ['client_credentials'] }
    for (const id of ['alpha', 'beta', 'gamma']) await createClient(db, sealer, builtIn.scopes, { ...machine, id })
    await addUsers(db, 2_001)
  })
  after(() => db.close())

  const verifier = (options = {}) => {
    const time = clock(start)
    return { verify: tokenVerifier({ issuer, audience: issuer, keys, db, now: time.now, ...options }), ...time }
  }

  it('tokenVerifier returns the client, subject and scopes of a valid token', async () => {
    const { verify } = verifier()
    const caller = { clientId: 'alpha', subject: '17', scopes: new Set(['reports:read', 'books:write']) }
    await record(db, 'of 17')
    assert.deepEqual(await verify(await signed({ sub: '17', jti: 'of 17' })), { caller })
    assert.deepEqual(await verify(await signed({ sub: '17', jti: 'of 17' }, { typ: 'at+jwt' })), { caller })
  })

  it('tokenVerifier removes the scopes that the user’s role can no longer grant', async () => {
    await createClient(db, sealer, builtIn.scopes, {
      ...{ id: 'operations', name: 'App', scopes: ['users:read', 'users:write', 'audit:read', 'admin'] },
      grants: ['client_credentials'],
    })
    const account = { passwordHash: null, createdAt: new Date(start).toISOString(), passwordChangedAt: null }
    const accounts = [
      { ...account, userId: 21, role: 'admin' as const },
      { ...account, userId: 22, role: 'user' as const },
    ]
    await db.write((tx) => tx.insertInto('accounts').values(accounts).execute())
    const scopesOf = async (sub: string) => {
      const [jti, client_id] = [`of ${sub}`, 'operations']
      await record(db, jti)
      const scope = 'users:read users:write audit:read admin'
      const verification = await verifier().verify(await signed({ sub, jti, client_id, scope }))
      return 'caller' in verification ? [...verification.caller.scopes] : verification
    }
    assert.deepEqual(await scopesOf('21'), ['users:read', 'users:write', 'audit:read', 'admin'])
    assert.deepEqual(await scopesOf('22'), ['users:read'])
    assert.deepEqual(await scopesOf('operations'), ['users:read', 'users:write', 'audit:read', 'admin'])
  })

  it('tokenVerifier accepts unknown header members', async () => {
    assert.ok('caller' in (await verifier().verify(signedAnyhow({ x: 1 }))))
  })

  it('tokenVerifier accepts a token created by a library', async () => {
    const token = new SignJWT(fields).setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid })
    assert.ok('caller' in (await verifier().verify(await token.sign(own.privateKey))))
  })

  describe('AUTH_TOKEN_INVALID', () => {
    for (const [attack, token] of Object.entries(attacks)) {
      it(`for ${attack}`, async () => assert.deepEqual(await verifier().verify(await token()), invalid))
    }
  })

  describe('AUTH_TOKEN_EXPIRED', () => {
    it('30 seconds after exp, whether the token is cached or not', async () => {
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

    it('only if the token is otherwise valid; AUTH_TOKEN_INVALID if it is also forged or for a different audience', async () => {
      const past = { exp: iat - 100 }
      const { verify } = verifier()
      assert.deepEqual(await verify(await signed(past)), expired)
      assert.deepEqual(await verify(await signed(past, {}, other.privateKey)), invalid)
      assert.deepEqual(await verify(await signed({ ...past, aud: 'alpha' })), invalid)
    })
  })

  describe('the token cache', () => {
    it('returns the same caller synchronously for a known token', async () => {
      const { verify } = verifier()
      const token = await signed()
      const [first, second] = await Promise.all([verify(token), verify(token)])
      const third = verify(token)
      assert.ok(!(third instanceof Promise) && 'caller' in third)
      assert.ok('caller' in first && 'caller' in second)
      assert.ok(first.caller === third.caller && second.caller === third.caller)
    })

    it('returns the same caller after another database lookup, 30 seconds later', async () => {
      const { verify, pass } = verifier()
      const token = await signed()
      const first = await verify(token)
      pass(30)
      const second = verify(token)
      assert.ok(second instanceof Promise)
      assert.equal(await second, first)
      assert.equal(verify(token), first)
    })

    it('never holds more tokens than its size allows, and evicts the oldest token first', async () => {
      const { verify } = verifier({ cacheSize: 2 })
      const tokens = await Promise.all(['1', '2', '3'].map((jti) => signed({ jti })))
      for (const token of tokens) await verify(token)
      assert.deepEqual(
        tokens.map((token) => verify(token) instanceof Promise),
        [true, false, false],
      )
    })

    it('does not store rejections', async () => {
      const { verify } = verifier()
      const token = await signed({}, {}, other.privateKey)
      await verify(token)
      assert.ok(verify(token) instanceof Promise)
    })
  })

  describe('revocation', () => {
    it('a revoked client’s token is rejected after 30 seconds, or at once if the token is not cached', async () => {
      const { verify, pass, now } = verifier()
      const token = await signed({ client_id: 'gamma', sub: 'gamma' })
      await verify(token)
      await revokeClient({ db, sealer, actor: operator }, 'gamma')
      pass(29)
      assert.ok('caller' in (await verify(token)))
      pass(1)
      assert.deepEqual(await verify(token), invalid)
      assert.deepEqual(await tokenVerifier({ issuer, audience: issuer, keys, db, now })(token), invalid)
    })

    it('a deleted user’s token is rejected after 30 seconds, an unknown user’s token at once', async () => {
      const { verify, pass } = verifier()
      const token = await signed({ sub: '2001', jti: 'of 2001' })
      await record(db, 'of 2001', 'of nobody')
      assert.ok('caller' in (await verify(token)))
      await db.write((tx) => tx.deleteFrom('users').where('id', '=', 2_001).execute())
      assert.ok('caller' in (await verify(token)))
      pass(30)
      assert.deepEqual(await verify(token), invalid)
      for (const sub of ['2002', '0', '-1', '1e3', '99999999999', 'nobody']) {
        assert.deepEqual(await verify(await signed({ sub, jti: 'of nobody' })), invalid)
      }
    })

    it('a revoked token is rejected; the same client’s other tokens are not', async () => {
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

    it('a user token is rejected if it has no record or its record was deleted', async () => {
      const { verify, pass } = verifier()
      const token = await signed({ sub: '18', jti: 'of 18' })
      assert.deepEqual(await verify(token), invalid)
      await record(db, 'of 18')
      assert.ok('caller' in (await verify(token)))
      await db.write((tx) => tx.deleteFrom('authRecords').where('id', '=', 'of 18').execute())
      assert.ok('caller' in (await verify(token)))
      pass(30)
      assert.deepEqual(await verify(token), invalid)
    })

    it('a client-credentials token needs no record', async () => {
      const { verify } = verifier()
      assert.ok('caller' in (await verify(await signed({ jti: 'unrecorded' }))))
    })

    it('a revocation record is stored until the token has expired according to every node’s clock', async () => {
      const { verify, pass, now } = verifier()
      const adapter = records({ db, now })('ClientCredentials')
      const token = await signed({ jti: 'marked' })
      await adapter.upsert('marked', { jti: 'marked' }, 900)
      await adapter.destroy('marked')
      // Token lifetime, tolerated skew, largest lag of a ready node, and the time for which a lagging node stays ready.
      pass(900 + 30 + 30 + 5)
      await sweepExpired(db, now)
      // Checks on a node whose clock is half a minute behind, just before the token expires there.
      pass(-36)
      assert.deepEqual(await verify(token), invalid)
      pass(36 + 300)
      await sweepExpired(db, now)
      const left = await db.read.selectFrom('authRecords').select('id').where('id', '=', 'marked').execute()
      assert.deepEqual(left, [])
      assert.deepEqual(await verify(token), expired)
    })

    it('a token is rejected once its grant no longer exists', async () => {
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

  it('tokenVerifier throws instead of returning AUTH_TOKEN_INVALID if the database fails', async () => {
    const failing = { ...db, prepare: () => ({ all: () => Promise.reject(new Error('connection lost')) }) }
    const { verify } = verifier({ db: failing })
    await assert.rejects(async () => verify(await signed()), /connection lost/)
  })

  it('T-JWT-07 tokenVerifier returns the right caller for each of 2,000 tokens issued to two clients', async () => {
    // Signing with an EC key is much faster than with an RSA key.
    const quick = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
    const { verify } = verifier({ keys: { publicKeys: new Map([['quick', quick.publicKey]]) } })
    const header = { alg: 'ES256', kid: 'quick' }
    const mine = (index: number) => (index % 2 ? 'alpha' : 'beta')
    const claims = Array.from({ length: 2_000 }, (_, index) => ({
      ...{ client_id: mine(index), sub: `${index + 1}`, jti: `${index}` },
    }))
    for (let first = 0; first < claims.length; first += 500) {
      await record(db, ...claims.slice(first, first + 500).map(({ jti }) => jti))
    }
    const tokens = await Promise.all(claims.map((each) => signed(each, header, quick.privateKey)))
    for (const round of ['verified', 'cached']) {
      // At most a hundred at a time, because more could time out while waiting for database connections.
      for (let first = 0; first < tokens.length; first += 100) {
        const verifications = await Promise.all(tokens.slice(first, first + 100).map((token) => verify(token)))
        for (const [index, verification] of verifications.entries()) {
          assert.ok('caller' in verification, round)
          const { clientId, subject } = verification.caller
          assert.deepEqual([clientId, subject], [mine(first + index), `${first + index + 1}`])
        }
      }
    }
  })
})

it('the public key used in forgeries is the key that verifies tokens', () => {
  assert.ok(createPublicKey(pem).equals(own.publicKey))
})
