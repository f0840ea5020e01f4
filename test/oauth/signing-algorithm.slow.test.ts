import assert from 'node:assert/strict'
import { after, beforeEach, describe, it } from 'node:test'
import { createLocalJWKSet, decodeProtectedHeader, jwtVerify } from 'jose'
import { operator, theService } from '../../src/audit/chain.ts'
import type { SigningAlgorithm } from '../../src/oauth/keys/key-algorithms.ts'
import { keyRing } from '../../src/oauth/keys/key-ring.ts'
import { rotateOnRequest, rotateOnSchedule } from '../../src/oauth/keys/rotation.ts'
import type { Database } from '../../src/storage/database.ts'
import { forEachEngine, onSqlite } from '../support/engines.ts'
import { authService, codeFlow } from './real.ts'
import { clock, sealer } from './support.ts'

const scope = 'openid users:read'

onSqlite((engine) => {
  for (const algorithm of ['ES256', 'EdDSA'] as const) {
    describe(`PLINTH_SIGNING_ALGORITHM=${algorithm}`, () => {
      const auth = authService(engine, { PLINTH_SIGNING_ALGORITHM: algorithm })
      const json = async (path: string) => JSON.parse(await (await auth.send(path)).body.text())

      it('signs access and ID tokens, which the unmodified openid-client and the API accept', async () => {
        const config = await auth.openidClient()
        const { tokens } = await codeFlow(config, auth.browser(), auth.user, { scope })
        const { kid } = decodeProtectedHeader(tokens.access_token)
        for (const token of [tokens.access_token, tokens.id_token as string]) {
          assert.deepEqual(decodeProtectedHeader(token), { alg: algorithm, typ: 'JWT', kid })
          await jwtVerify(token, createLocalJWKSet(await json('/oauth/jwks')), { issuer: auth.baseUrl })
        }
        assert.equal(await auth.statusFor(tokens.access_token), 200)
      })

      it('sets the algorithm in the metadata and in the JWKS, which has no private key', async () => {
        const metadata = await json('/.well-known/openid-configuration')
        assert.deepEqual(metadata.id_token_signing_alg_values_supported, [algorithm])
        const [key, ...others] = (await json('/oauth/jwks')).keys
        assert.deepEqual([key.alg, key.use, key.d, others], [algorithm, 'sig', undefined, []])
      })

      it('401 for a token with a changed signature', async () => {
        const { tokens } = await codeFlow(await auth.openidClient(), auth.browser(), auth.user)
        const [head, body, signature = ''] = tokens.access_token.split('.')
        const first = signature.startsWith('A') ? 'B' : 'A'
        assert.equal(await auth.statusFor([head, body, first + signature.slice(1)].join('.')), 401)
      })
    })
  }

  describe('a change of PLINTH_SIGNING_ALGORITHM', () => {
    const auth = authService(engine)

    it('does not invalidate access tokens and ID token hints signed with the earlier algorithm', async () => {
      const config = await auth.openidClient({ postLogoutRedirectUris: ['https://app.example/bye'] })
      const one = auth.browser()
      const { tokens } = await codeFlow(config, one, auth.user, { scope })
      const sources = { db: auth.db, sealer: auth.sealer, now: Date.now, actor: operator, algorithm: 'ES256' as const }
      await rotateOnRequest(sources, { immediately: true, discard: false })
      // A token with an unknown kid makes the service load the keys.
      await auth.statusFor(`${btoa('{"alg":"ES256","kid":"unknown"}').replaceAll('=', '')}.e30.AA`)
      const { id_token_signing_alg_values_supported: algorithms } = JSON.parse(
        await (await auth.send('/.well-known/openid-configuration')).body.text(),
      )
      assert.deepEqual(algorithms, ['ES256', 'RS256'])
      assert.equal(await auth.statusFor(tokens.access_token), 200)
      const hint = new URLSearchParams({ id_token_hint: tokens.id_token as string })
      assert.equal((await one.visit(`/oauth/logout?${hint}`)).status, 200)
      const { tokens: next } = await codeFlow(await auth.openidClient(), auth.browser(), auth.user)
      assert.equal(decodeProtectedHeader(next.id_token as string).alg, 'ES256')
    })
  })
})

forEachEngine((engine) => {
  describe('scheduled rotation of signing keys', () => {
    let db: Database
    const time = clock()
    beforeEach(async () => {
      await db?.close()
      db = await engine.database()
    })
    after(() => db.close())
    const sources = (algorithm: SigningAlgorithm) => ({ db, sealer, now: time.now, algorithm })
    const algorithms = async () => {
      const { current } = await keyRing(sources('RS256'))
      return current.jwks.keys.map(({ alg }) => alg)
    }
    const maintain = (algorithm: SigningAlgorithm) => rotateOnSchedule({ ...sources(algorithm), actor: theService })

    it('publishes a key for a new algorithm at once, signs with it a day later, and then retires the old key', async () => {
      await keyRing(sources('RS256'))
      assert.equal((await maintain('RS256')).published, undefined)
      const { published } = await maintain('ES256')
      assert.equal(Date.parse(published?.activeFrom ?? ''), time.now() + 86_400_000)
      assert.deepEqual(await algorithms(), ['RS256', 'ES256'])
      assert.equal((await maintain('ES256')).published, undefined)
      time.pass(86_400)
      assert.deepEqual(await algorithms(), ['ES256', 'RS256'])
      assert.equal((await maintain('ES256')).published, undefined)
      time.pass(25 * 3_600)
      await maintain('ES256')
      assert.deepEqual(await algorithms(), ['ES256'])
    })
  })
})
