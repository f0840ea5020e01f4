import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { calculateJwkThumbprint } from 'jose'
import { createClient } from '../../src/auth/clients.ts'
import { currentServer, keyRing } from '../../src/auth/key-ring.ts'
import { rotateKeys, signingKeys } from '../../src/auth/keys.ts'
import { tokenVerifier } from '../../src/auth/verify.ts'
import { builtIn } from '../../src/built-in.ts'
import { type Database, openDatabase } from '../../src/db/open.ts'
import { sealer as makeSealer } from '../../src/db/seal.ts'
import { forEachEngine } from '../support/engines.ts'
import { clock, issuer, persons, sealer } from './support.ts'

forEachEngine((engine) => {
  let db: Database
  before(async () => {
    db = await engine.database()
  })
  after(() => db.close())
  const sources = () => ({ db, sealer, now: Date.now })

  it('one key for two processes that start together on an empty database', async () => {
    const other = await openDatabase(db.url)
    const [mine, theirs] = await Promise.all([signingKeys(sources()), signingKeys({ ...sources(), db: other })])
    await other.close()
    assert.equal(mine.jwks.keys.length, 1)
    assert.deepEqual(theirs.jwks, mine.jwks)
    assert.deepEqual(theirs.cookieKeys, mine.cookieKeys)
  })

  it('the same keys on every later start', async () => {
    const [first, second] = [await signingKeys(sources()), await signingKeys(sources())]
    assert.deepEqual(second.jwks, first.jwks)
    assert.deepEqual(second.cookieKeys, first.cookieKeys)
  })

  it('one key for ten starts at once after the last key was taken away', async () => {
    await signingKeys(sources())
    await db.write((tx) => tx.deleteFrom('signingKeys').execute())
    const starts = await Promise.all(Array.from({ length: 10 }, () => signingKeys(sources())))
    assert.equal(new Set(starts.map(({ jwks }) => JSON.stringify(jwks))).size, 1)
    assert.equal(starts[0]?.jwks.keys.length, 1)
  })

  it('RS256 keys of 2048 bits, named by their thumbprint, whose public half is public only', async () => {
    const { jwks, publicKeys } = await signingKeys(sources())
    const [key] = jwks.keys
    assert.equal(key?.alg, 'RS256')
    assert.equal(Buffer.from(key?.n as string, 'base64url').length, 256)
    assert.equal(key?.kid, await calculateJwkThumbprint(key ?? {}))
    assert.equal(publicKeys.get(key?.kid as string)?.type, 'public')
  })

  it('nothing readable in the database', async () => {
    const rows = await db.read.selectFrom('signingKeys').selectAll().execute()
    const settings = await db.read.selectFrom('settings').selectAll().execute()
    const { jwks, cookieKeys } = await signingKeys(sources())
    const stored = JSON.stringify([rows, settings])
    assert.ok(!stored.includes(jwks.keys[0]?.d as string) && !stored.includes(cookieKeys[0] as string))
  })

  describe('T-OA-14 rotation', () => {
    const day = 86_400
    const time = clock()
    const at = () => ({ db, sealer, now: time.now })
    const kids = async () => (await signingKeys(at())).jwks.keys.map(({ kid }) => kid)

    it('a new key after 90 days, published a day before it signs; the old one kept until nothing of it is good', async () => {
      await db.write((tx) => tx.deleteFrom('signingKeys').execute())
      const [old] = await kids()
      const { cookieKeys } = await signingKeys(at())
      time.pass(90 * day - 60)
      await rotateKeys(at())
      assert.deepEqual(await kids(), [old])
      time.pass(60)
      await Promise.all(Array.from({ length: 5 }, () => rotateKeys(at())))
      const [first, published, ...more] = await kids()
      assert.deepEqual([first, more], [old, []])
      assert.equal((await signingKeys(at())).cookieKeys[0], cookieKeys[0])
      time.pass(day)
      await rotateKeys(at())
      assert.deepEqual(await kids(), [published, old])
      const rotated = (await signingKeys(at())).cookieKeys
      assert.ok(rotated.length === 2 && rotated[1] === cookieKeys[0])
      time.pass(26 * 3_600)
      await rotateKeys(at())
      assert.deepEqual(await kids(), [published])
      assert.deepEqual((await signingKeys(at())).cookieKeys, [rotated[0]])
    })

    it('a running service takes the new key over: old tokens are good, new ones are signed with it', async () => {
      const ring = await keyRing(at())
      const verify = tokenVerifier({ issuer, audience: issuer, db, keys: ring, now: Date.now })
      const { login, frame } = persons(db)
      const { scopes } = builtIn
      const options = {
        issuer,
        audience: issuer,
        scopes,
        db,
        sealer,
        now: Date.now,
        accessTokenSeconds: 900,
        login,
        frame,
      }
      const server = currentServer(ring, {
        ...options,
        address: () => '',
        report: (error) => assert.fail(String(error)),
      })
      const machine = { name: 'Machine', scopes: ['reports:read'], grants: ['client_credentials'] }
      const { client } = await createClient(db, sealer, scopes, machine)
      const issue = async () => {
        const provider = server.current
        const found = await provider.Client.find(client.id)
        const token = new provider.ClientCredentials({ client: found as never, scope: 'reports:read' })
        const about = {
          audience: issuer,
          scope: 'reports:read',
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } },
        }
        token.resourceServer = new provider.ResourceServer(issuer, about as never)
        return token.save()
      }
      const kidOf = (token: string) =>
        JSON.parse(Buffer.from(token.split('.')[0] as string, 'base64url').toString()).kid
      const before = await issue()
      const provider = server.current
      await ring.refresh()
      assert.equal(server.current, provider)
      time.pass(90 * day)
      await ring.refresh()
      time.pass(day)
      await ring.refresh()
      assert.notEqual(server.current, provider)
      const afterwards = await issue()
      assert.notEqual(kidOf(afterwards), kidOf(before))
      for (const token of [before, afterwards]) assert.ok('caller' in (await verify(token)))
    })
  })

  it('a refusal that names the place when the master key is another one', async () => {
    const stranger = makeSealer(Buffer.alloc(32, 8), randomBytes)
    await assert.rejects(signingKeys({ ...sources(), sealer: stranger }), /signing_keys:\S+ cannot be unsealed/)
  })
})
