import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { type Adapter, errors } from 'oidc-provider'
import { operator } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import { revokeClient } from '../../src/oauth/clients/update.ts'
import { records } from '../../src/oauth/provider/adapter.ts'
import { sweepExpired } from '../../src/oauth/tokens/auth-records.ts'
import type { Database } from '../../src/storage/database.ts'
import { forEachEngine } from '../support/engines.ts'
import { clock, sealer } from './support.ts'

forEachEngine((engine) => {
  const time = clock(Date.parse('2026-11-21T10:00:00.000Z'))
  let db: Database
  let of: (kind: string) => Adapter
  before(async () => {
    db = await engine.database()
    of = records({ db, now: time.now })
  })
  after(() => db.close())

  describe('a lookup by the adapter', () => {
    it('returns the latest payload for an id and its kind, and nothing for a different kind', async () => {
      await of('Session').upsert('r1', { jti: 'r1', scope: 'a' }, 60)
      await of('Session').upsert('r1', { jti: 'r1', scope: 'b' }, 60)
      assert.deepEqual(await of('Session').find('r1'), { jti: 'r1', scope: 'b' })
      assert.equal(await of('AuthorizationCode').find('r1'), undefined)
    })

    it('by uid or user code returns the payload, and nothing for a different value', async () => {
      await of('Session').upsert('s1', { jti: 's1', uid: 'u1' }, 60)
      await of('DeviceCode').upsert('d1', { jti: 'd1', userCode: 'CODE' }, 60)
      assert.equal((await of('Session').findByUid('u1'))?.uid, 'u1')
      assert.deepEqual(await of('DeviceCode').findByUserCode('CODE'), { jti: 'd1', userCode: 'CODE' })
      assert.equal(await of('Session').findByUid('CODE'), undefined)
    })

    it('returns nothing after a record expires; a record without an expiry never expires', async () => {
      await of('AuthorizationCode').upsert('short', { jti: 'short' }, 60)
      await of('Grant').upsert('endless', { jti: 'endless' })
      time.pass(60)
      assert.equal(await of('AuthorizationCode').find('short'), undefined)
      assert.deepEqual(await of('Grant').find('endless'), { jti: 'endless' })
    })

    it('returns nothing after destroy', async () => {
      await of('Session').upsert('s2', { jti: 's2' }, 60)
      await of('Session').destroy('s2')
      assert.equal(await of('Session').find('s2'), undefined)
    })
  })

  describe('data stored by the adapter', () => {
    it('contains the SHA-256 of a secret id, but neither the id itself nor the session cookie, even in the payload', async () => {
      for (const kind of ['AuthorizationCode', 'RefreshToken', 'Session', 'Interaction']) {
        const id = `secret-${kind}`
        const payload = { jti: id, returnTo: `/oauth/authorize/${id}`, session: { uid: 'u', cookie: 'cookie id' } }
        await of(kind).upsert(id, payload as never, 60)
        const rows = await db.read.selectFrom('authRecords').selectAll().where('kind', '=', kind).execute()
        assert.ok(rows.some((row) => row.id === hash('sha256', id, 'base64url')))
        assert.ok(!JSON.stringify(rows).includes(id) && !JSON.stringify(rows).includes('cookie id'))
        const found = await of(kind).find(id)
        assert.equal(found?.returnTo, payload.returnTo)
      }
    })

    it('contains only the first payload of a refresh token that is stored twice', async () => {
      await of('RefreshToken').upsert('successor', { jti: 'successor', iat: 1 }, 60)
      await of('RefreshToken').upsert('successor', { jti: 'successor', iat: 2 }, 60)
      assert.equal((await of('RefreshToken').find('successor'))?.iat, 1)
    })
  })

  describe('adapter.consume', () => {
    it('succeeds for exactly one of 50 concurrent calls; the others throw invalid_grant', async () => {
      for (const round of [1, 2, 3, 4, 5]) {
        const id = `code${round}`
        await of('AuthorizationCode').upsert(id, { jti: id }, 60)
        const all = await Promise.allSettled(Array.from({ length: 50 }, () => of('AuthorizationCode').consume(id)))
        const refused = all.filter((result) => result.status === 'rejected')
        assert.equal(refused.length, 49)
        assert.ok(refused.every(({ reason }) => reason instanceof errors.InvalidGrant))
      }
    })

    it('stores the time of use in seconds', async () => {
      await of('AuthorizationCode').upsert('used', { jti: 'used' }, 60)
      await of('AuthorizationCode').consume('used')
      const consumed = Math.floor(time.now() / 1_000)
      assert.deepEqual(await of('AuthorizationCode').find('used'), { jti: 'used', consumed })
    })

    it('T-OA-06 allows a refresh token to be used again until ten seconds after its first use', async () => {
      await of('RefreshToken').upsert('lost', { jti: 'lost' }, 60)
      const consumed = Math.floor(time.now() / 1_000)
      await of('RefreshToken').consume('lost')
      time.pass(9)
      assert.deepEqual(await of('RefreshToken').find('lost'), { jti: 'lost' })
      await of('RefreshToken').consume('lost')
      time.pass(1)
      assert.deepEqual(await of('RefreshToken').find('lost'), { jti: 'lost', consumed })
      await assert.rejects(of('RefreshToken').consume('lost'), { error: 'invalid_grant' })
    })

    it('marks a code as used at once, even on a node whose clock is behind', async () => {
      await of('AuthorizationCode').upsert('skewed', { jti: 'skewed' }, 60)
      await of('AuthorizationCode').consume('skewed')
      time.pass(-5)
      assert.ok((await of('AuthorizationCode').find('skewed'))?.consumed)
      await assert.rejects(of('AuthorizationCode').consume('skewed'), { error: 'invalid_grant' })
      time.pass(5)
    })

    it('throws invalid_grant for an unknown id', async () => {
      await assert.rejects(of('AuthorizationCode').consume('never'), { error: 'invalid_grant' })
    })
  })

  describe('adapter.revokeByGrantId', () => {
    it('removes all tokens of the grant, and no others', async () => {
      const kinds = ['AccessToken', 'RefreshToken', 'AuthorizationCode']
      for (const kind of kinds) {
        await of(kind).upsert(`${kind}1`, { jti: `${kind}1`, grantId: 'g1' }, 60)
        await of(kind).upsert(`${kind}2`, { jti: `${kind}2`, grantId: 'g2' }, 60)
      }
      await of('RefreshToken').revokeByGrantId('g1')
      for (const kind of kinds) {
        assert.equal(await of(kind).find(`${kind}1`), undefined)
        assert.ok(await of(kind).find(`${kind}2`))
      }
    })
  })

  describe('sweepExpired', () => {
    it('removes exactly the records that expired more than five minutes ago', async () => {
      const payload = '{}'
      const more = { payload, grantId: null, uid: null, userCode: null, consumedAt: null }
      const expiresAt = new Date(time.now()).toISOString()
      const rows = Array.from({ length: 1_200 }, (_, n) => ({ kind: 'Old', id: `${n}`, expiresAt, ...more }))
      await db.write(async (tx) => {
        await tx.deleteFrom('authRecords').execute()
        for (const part of [rows.slice(0, 600), rows.slice(600)])
          await tx.insertInto('authRecords').values(part).execute()
      })
      await of('Grant').upsert('endless', { jti: 'endless' })
      time.pass(300)
      assert.equal(await sweepExpired(db, time.now), 0)
      time.pass(1)
      assert.equal(await sweepExpired(db, time.now), 1_200)
      assert.equal(await sweepExpired(db, time.now), 0)
      assert.ok(await of('Grant').find('endless'))
    })
  })

  describe('the adapter for clients', () => {
    it('returns a registered client’s metadata, and nothing once the client is revoked', async () => {
      const { client } = await createClient(db, sealer, builtIn.scopes, {
        name: 'Machine',
        scopes: ['reports:read', 'books:write'],
        grants: ['client_credentials'],
      })
      assert.deepEqual(await of('Client').find(client.id), {
        client_id: client.id,
        client_name: 'Machine',
        client_secret: client.secretHash,
        token_endpoint_auth_method: 'client_secret_basic',
        application_type: 'web',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        post_logout_redirect_uris: [],
        response_types: [],
        scope: 'reports:read books:write',
        is_first_party: false,
        is_trusted: false,
        introspects_others: false,
      })
      await revokeClient({ db, sealer, actor: operator }, client.id)
      assert.equal(await of('Client').find(client.id), undefined)
    })

    it('returns no secret for a public client, and application_type native for a loopback URI', async () => {
      const redirectUris = ['http://127.0.0.1/cb']
      const app = { name: 'App', scopes: ['openid'], grants: ['authorization_code'], redirectUris, secret: null }
      const { client } = await createClient(db, sealer, builtIn.scopes, app)
      const metadata = await of('Client').find(client.id)
      assert.equal(metadata?.token_endpoint_auth_method, 'none')
      assert.equal(metadata?.application_type, 'native')
      assert.deepEqual(metadata?.response_types, ['code'])
    })

    it('rejects writes', async () => {
      await assert.rejects(of('Client').upsert('x', {}), /registered and revoked by the service/)
    })
  })
})
