import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import { signingKeys } from '../../src/oauth/keys/signing-keys.ts'
import { authorizationServer } from '../../src/oauth/provider/provider.ts'
import { createUserParts } from '../../src/oauth/users/users.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer } from '../../src/storage/encryption.ts'
import { looks, type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const baseUrl = 'https://plinth.test'
const origin = 'https://app.example.com'

forEachEngine((engine) => {
  describe('the authorization server, called from an allowed origin', () => {
    let db: Database
    let service: TestApp
    let payload: string
    before(async () => {
      db = await engine.database()
      const seal = sealer(Buffer.alloc(32, 1), randomBytes)
      const keys = await signingKeys({ db, sealer: seal, now: Date.now })
      const report = (error: unknown) => assert.fail(String(error))
      const { scopes } = builtIn
      const tokens = { issuer: baseUrl, audience: baseUrl, scopes, db, keys, now: Date.now, accessTokenSeconds: 900 }
      const { login, frame } = createUserParts({ ...tokens, sealer: seal, random: randomBytes, ...looks })
      const about = { login, frame, address: () => '127.0.0.1', sealer: seal, report }
      const provider = { current: authorizationServer({ ...tokens, ...about }) }
      service = await testApp(db, { prefixes: [''], corsOrigins: [origin], provider })
      const machine = { name: 'Machine', scopes: ['reports:read'], grants: ['client_credentials'] }
      const { client, secret } = await createClient(db, seal, scopes, machine)
      payload = `grant_type=client_credentials&client_id=${client.id}&client_secret=${secret}`
    })
    after(async () => {
      await service.app.close()
      await db.close()
    })

    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    type Sent = Parameters<TestApp['send']>[0]
    const requests: [status: number, what: string, sent: () => Sent][] = [
      [200, 'a token', () => ({ method: 'POST', url: '/oauth/token', payload, headers: form })],
      [401, 'a refused grant', () => ({ method: 'POST', url: '/oauth/token', payload: 'grant_type=x', headers: form })],
      [
        413,
        'a body that is too large',
        () => ({ method: 'POST', url: '/oauth/token', payload: 'x'.repeat(60_000), headers: form }),
      ],
      [200, 'discovery', () => ({ url: '/.well-known/openid-configuration' })],
      [200, 'the keys', () => ({ url: '/oauth/jwks' })],
      [401, 'userinfo without a token', () => ({ url: '/oauth/userinfo' })],
    ]
    for (const [status, what, sent] of requests) {
      it(`${status} for ${what}, readable only from that origin`, async () => {
        const ask = (from: string) => {
          const { headers, ...rest } = sent()
          return service.send({ ...rest, scopes: null, headers: { ...headers, origin: from } })
        }
        const answer = await ask(origin)
        assert.equal(answer.statusCode, status, answer.body)
        assert.equal(answer.headers['access-control-allow-origin'], origin)
        assert.equal(answer.headers['access-control-allow-credentials'], 'true')
        assert.match(String(answer.headers.vary), /\bOrigin\b/)
        const other = await ask('https://evil.test')
        assert.equal(other.statusCode, status)
        const family = Object.keys(other.headers).filter((name) => name.startsWith('access-control-'))
        assert.deepEqual(family, [])
      })
    }

    it('sends each header once, whether set by a policy or by the provider', async () => {
      await service.app.listen({ host: '127.0.0.1', port: 0 })
      const { port } = service.app.server.address() as AddressInfo
      for (const [status, what, sent] of requests) {
        const { method = 'GET', url, payload = '', headers } = sent() as Sent & { payload?: string; url: string }
        const all = { ...headers, origin, 'x-forwarded-proto': 'https', 'content-length': payload.length }
        const sentRequest = request({ host: '127.0.0.1', port, method, path: url, headers: all as never, agent: false })
        const [answer] = (await once(sentRequest.end(payload), 'response')) as [IncomingMessage]
        answer.resume()
        assert.equal(answer.statusCode, status, what)
        const names = answer.rawHeaders.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase())
        assert.deepEqual(names, [...new Set(names)], what)
        for (const name of ['x-request-id', 'strict-transport-security', 'cache-control', 'vary']) {
          assert.ok(names.includes(name), `${what}: ${name}`)
        }
      }
    })

    it('204 for a preflight request to the token endpoint', async () => {
      const headers = {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization',
      }
      const answer = await service.send({ method: 'OPTIONS', url: '/oauth/token', scopes: null, headers })
      assert.equal(answer.statusCode, 204)
      assert.equal(answer.headers['access-control-allow-origin'], origin)
    })
  })
})
