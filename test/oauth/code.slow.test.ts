import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import * as openid from 'openid-client'
import { forEachEngine } from '../support/engines.ts'
import { authService, codeFlow } from './real.ts'

forEachEngine((engine) => {
  const auth = authService(engine)

  describe('the unmodified openid-client', () => {
    const kinds: [string, (secret: string) => openid.ClientAuth, boolean][] = [
      ['a public client with PKCE', () => openid.None(), true],
      ['a secret in the form', (secret) => openid.ClientSecretPost(secret), false],
      ['a secret by HTTP Basic', (secret) => openid.ClientSecretBasic(secret), false],
      ['a secret and PKCE', (secret) => openid.ClientSecretBasic(secret), true],
    ]
    for (const [what, authentication, pkce] of kinds) {
      it(`completes the code flow with ${what}`, async () => {
        const who = await auth.person()
        const app = await auth.client(what.startsWith('a public') ? { secret: null } : {})
        const config = await auth.relyingParty(app, authentication(app.secret ?? ''))
        const { back, tokens } = await codeFlow(config, auth.browser(), who, { pkce })
        assert.equal(back.searchParams.get('iss'), auth.baseUrl)
        assert.equal(tokens.token_type, 'bearer')
        assert.equal(tokens.expires_in, 900)
        const { kid } = decodeProtectedHeader(tokens.access_token)
        assert.deepEqual(decodeProtectedHeader(tokens.id_token as string), { alg: 'RS256', typ: 'JWT', kid })
        const { iat = 0, auth_time, nonce, ...claims } = tokens.claims() as Record<string, unknown> & { iat: number }
        assert.deepEqual(claims, {
          iss: auth.baseUrl,
          sub: who.sub,
          aud: app.id,
          exp: iat + 900,
          name: who.name,
          email: who.email,
        })
        assert.ok(typeof nonce === 'string' && Math.abs(Number(auth_time) - iat) < 10)
        const { name, email, sub } = who
        assert.deepEqual(await openid.fetchUserInfo(config, tokens.access_token, sub), { sub, name, email })
        const access = decodeJwt(tokens.access_token)
        assert.deepEqual([access.sub, access.client_id, access.aud], [sub, app.id, auth.baseUrl])
      })
    }
  })
})
