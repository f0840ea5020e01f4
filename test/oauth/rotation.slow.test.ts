import assert from 'node:assert/strict'
import { after, beforeEach, describe, it } from 'node:test'
import { createLocalJWKSet, decodeProtectedHeader, jwtVerify } from 'jose'
import { operator, theService } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import { keyRing } from '../../src/oauth/keys/key-ring.ts'
import { rotateOnRequest, rotateOnSchedule } from '../../src/oauth/keys/rotation.ts'
import { currentServer } from '../../src/oauth/provider/current-server.ts'
import { tokenVerifier } from '../../src/oauth/tokens/verify.ts'
import type { Database } from '../../src/storage/database.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { forEachEngine } from '../support/engines.ts'
import { clock, issuer, persons, sealer, servedBy } from './support.ts'

const hour = 3_600
const day = 24 * hour

forEachEngine((engine) => {
  let db: Database
  let time: ReturnType<typeof clock>
  beforeEach(async () => {
    await db?.close()
    db = await engine.database()
    time = clock()
  })
  after(() => db.close())

  // Creating an RSA key takes a hundred times as long as creating an EC key.
  const algorithm = 'ES256' as const
  const sources = (database = db) => ({ db: database, sealer, now: time.now, algorithm })
  const byTime = (database = db) => rotateOnSchedule({ ...sources(database), actor: theService })
  const rotate = (options: { immediately?: boolean; discard?: boolean } = {}) =>
    rotateOnRequest({ ...sources(), actor: operator }, { immediately: false, discard: false, ...options })
  const kids = async () => {
    const ring = await keyRing(sources())
    return ring.current.jwks.keys.map(({ kid }) => kid)
  }

  describe('scheduled rotation (T-OA-14, S-04)', () => {
    it('a key signs for 90 days and verifies for 25 more hours; its successor is published a day before it signs', async () => {
      const [first] = await kids()
      time.pass(89 * day - 1)
      assert.deepEqual(await byTime(), { published: undefined, retired: [] })
      time.pass(1)
      const { published } = await byTime()
      assert.deepEqual(Object.keys(published ?? {}), ['kid', 'activeFrom'], 'the result is logged, so it has no key')
      assert.deepEqual(await kids(), [first, published?.kid], 'published, not signing')
      assert.equal(Date.parse(published?.activeFrom ?? ''), time.now() + day * 1_000)
      assert.deepEqual(await byTime(), { published: undefined, retired: [] }, 'one successor is enough')
      time.pass(day)
      assert.deepEqual(await kids(), [published?.kid, first], 'signing, the old one still verifies')
      time.pass(25 * hour - 1)
      assert.deepEqual((await byTime()).retired, [])
      time.pass(1)
      assert.deepEqual((await byTime()).retired, [first])
      assert.deepEqual(await kids(), [published?.kid])
    })

    it('cookie keys also rotate; old cookies stay valid for as long as the old key verifies', async () => {
      const cookieKeys = async () => (await keyRing(sources())).current.cookieKeys
      const [first] = await cookieKeys()
      time.pass(89 * day)
      await byTime()
      const [signing, ahead, ...more] = await cookieKeys()
      assert.deepEqual([signing, more], [first, []])
      time.pass(day)
      assert.deepEqual(await cookieKeys(), [ahead, first])
      time.pass(25 * hour)
      await byTime()
      assert.deepEqual(await cookieKeys(), [ahead])
      await rotate({ immediately: true, discard: true })
      const [fresh, ...others] = await cookieKeys()
      assert.ok(fresh !== ahead && others.length === 0 && String(fresh).length >= 43)
    })

    it('a service that was down for years still publishes a new key a day before signing with it', async () => {
      const [first] = await kids()
      time.pass(900 * day)
      const { published, retired } = await byTime()
      assert.equal(Date.parse(published?.activeFrom ?? ''), time.now() + day * 1_000)
      assert.deepEqual([retired, (await kids())[0]], [[], first])
    })

    it('only one of ten processes that start concurrently publishes a successor', async () => {
      await kids()
      time.pass(89 * day)
      const other = await openDatabase(db.url)
      const all = await Promise.all(Array.from({ length: 10 }, (_, n) => byTime(n % 2 ? other : db)))
      await other.close()
      assert.equal(all.filter(({ published }) => published).length, 1)
      assert.equal((await kids()).length, 2)
    })
  })

  describe('plinth keys rotate', () => {
    it('publishes a key that signs after a day, and no second key while the first is pending', async () => {
      const [first] = await kids()
      const { published } = await rotate()
      assert.deepEqual(await rotate(), { published: undefined, retired: [] })
      assert.deepEqual(await kids(), [first, published?.kid])
      time.pass(day)
      assert.equal((await kids())[0], published?.kid)
    })

    it('--now: a new key signs at once, a pending key is discarded, and the old key still verifies', async () => {
      const [first] = await kids()
      const waiting = await rotate()
      time.pass(1)
      const { published, retired } = await rotate({ immediately: true })
      assert.deepEqual(retired, [waiting.published?.kid])
      assert.deepEqual(await kids(), [published?.kid, first])
    })

    it('--discard: removes all other keys', async () => {
      const [first] = await kids()
      const { published, retired } = await rotate({ immediately: true, discard: true })
      assert.deepEqual([retired, await kids()], [[first], [published?.kid]])
    })

    it('is audited', async () => {
      await kids()
      await rotate({ immediately: true, discard: true })
      const audited = await db.read
        .selectFrom('auditEntries')
        .select(['event', 'subject'])
        .orderBy('sequence')
        .execute()
      assert.deepEqual(audited, [
        { event: 'signing_key.published', subject: 'command line' },
        { event: 'signing_key.retired', subject: 'command line' },
      ])
    })
  })

  /** Simulates two processes of one service: one issues tokens, the other only verifies them. */
  async function service() {
    const issuing = await keyRing(sources())
    const verifying = await keyRing(sources())
    const fixed = { issuer, audience: issuer, db, now: time.now }
    const { login, frame } = persons(db)
    const options = {
      ...fixed,
      scopes: builtIn.scopes,
      ...{ login, frame, address: () => '127.0.0.1' },
      sealer,
      accessTokenSeconds: 900,
      report: (error: unknown) => assert.fail(String(error)),
    }
    const server = await servedBy(currentServer(issuing, options))
    const machine = { name: 'Machine', scopes: ['reports:read'], grants: ['client_credentials'] }
    const { client, secret } = await createClient(db, sealer, builtIn.scopes, machine)
    const credentials = { client_id: client.id, client_secret: secret as string }
    const token = async () => (await server.token(credentials)).body.access_token
    const jwks = async () => (await (await fetch(`${server.base}/oauth/jwks`)).json()) as never
    return {
      issuing,
      verifying,
      token,
      jwks,
      verify: tokenVerifier({ ...fixed, keys: verifying }),
      close: server.close,
    }
  }

  describe('a running service (F-ROT)', () => {
    it('signs with the new key without a restart; every token verifies with a key set fetched a day earlier', async () => {
      const { issuing, token, jwks, close } = await service()
      const old = await token()
      await rotate()
      await issuing.reload()
      const cached = createLocalJWKSet(await jwks())
      assert.equal(decodeProtectedHeader(await token()).kid, decodeProtectedHeader(old).kid, 'not before it is active')
      time.pass(day)
      await issuing.reload()
      const fresh = await token()
      await close()
      assert.notEqual(decodeProtectedHeader(fresh).kid, decodeProtectedHeader(old).kid)
      for (const each of [old, fresh]) await jwtVerify(each, cached, { issuer })
    })

    it('rejects no token while keys rotate under load, even in a process that has not loaded the new keys', async () => {
      const { issuing, token, verify, close } = await service()
      const verifications: unknown[] = []
      const client = async () => {
        for (let n = 0; n < 8; n++) verifications.push(await verify(await token()))
      }
      const rotateAndReload = async () => {
        await rotate({ immediately: true })
        await issuing.reload()
      }
      for (let round = 0; round < 3; round++) {
        // Longer than the minimum interval between lookups of unknown keys, so that the new key is found at once.
        time.pass(31)
        const before = [client(), client()]
        await rotateAndReload()
        await Promise.all([...before, client(), client()])
      }
      await close()
      assert.equal(verifications.length, 96)
      assert.deepEqual(
        verifications.filter((verification) => !('caller' in (verification as object))),
        [],
      )
      assert.equal((await kids()).length, 4)
    })

    it('rejects a cached token half a minute after its key was discarded', async () => {
      const { issuing, verifying, token, verify, close } = await service()
      const old = await token()
      assert.ok('caller' in (await verify(old)))
      await rotate({ immediately: true, discard: true })
      await Promise.all([issuing.reload(), verifying.reload()])
      time.pass(30)
      assert.deepEqual(await verify(old), { refused: 'AUTH_TOKEN_INVALID' })
      assert.ok('caller' in (await verify(await token())))
      await close()
    })

    it('T-JWT-03 reads the keys at most once in 30 seconds, regardless of the kids in the tokens', async () => {
      const { token, close } = await service()
      const good = await token()
      const [, payload, signature] = good.split('.')
      let reads = 0
      const reading = { ...db.read, selectFrom: db.read.selectFrom.bind(db.read) }
      const watched = await keyRing({
        ...sources(),
        db: {
          ...db,
          read: new Proxy(reading, {
            get: (target, name) => {
              if (name !== 'selectFrom') return Reflect.get(target, name)
              return (table: 'signingKeys') => {
                if (table === 'signingKeys') reads++
                return target.selectFrom(table)
              }
            },
          }) as never,
        },
      })
      reads = 0
      const verify = tokenVerifier({ issuer, audience: issuer, db, now: time.now, keys: watched })
      const forged = (kid: unknown) => {
        const header = Buffer.from(JSON.stringify({ alg: 'RS256', typ: 'JWT', kid })).toString('base64url')
        return `${header}.${payload}.${signature}`
      }
      for (let n = 0; n < 10_000; n++) {
        const kid = n % 5 === 0 ? n : `../${n}' or 1=1 --`
        assert.deepEqual(await verify(forged(kid)), { refused: 'AUTH_TOKEN_INVALID' })
      }
      assert.equal(reads, 1)
      assert.ok('caller' in (await verify(good)))
      await close()
    })
  })
})
