import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import Fastify, { type FastifyInstance } from 'fastify'
import { authenticate } from '../../src/http/policies/authenticate.ts'
import { authorize } from '../../src/http/policies/authorize.ts'
import { bodyParsing } from '../../src/http/policies/body-parsing.ts'
import { conditional } from '../../src/http/policies/conditional.ts'
import { methods } from '../../src/http/policies/methods.ts'
import { type Mounted, mount, send, verify } from './support.ts'

describe('authorize', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['methods', 'authorize'], (app) => {
      app.get('/things', { config: { scope: 'public' } }, async () => [])
      app.post('/things', { config: { scope: 'things:write' } }, async () => ({ made: true }))
      app.get('/own', { config: { scope: 'any' } }, async ({ caller }) => ({ known: caller !== null }))
      app.post('/token', { config: { scope: 'own' } }, async () => ({ judged: 'by the route' }))
    })
  })
  after(() => mounted.app.close())
  const ask = (method: 'GET' | 'POST' | 'HEAD' | 'OPTIONS' | 'DELETE', url: string, token?: string, query = '') =>
    send(mounted, { method, url: url + query, ...(token && { token }) })

  it('200 for a token with the scope of the route', async () => {
    const answer = await ask('POST', '/things', 'writer')
    assert.equal(answer.statusCode, 200)
    assert.equal(answer.headers['www-authenticate'], undefined)
  })

  it('200 on a public route without a token or with a valid one, and on an `any` route with any valid token', async () => {
    assert.equal((await ask('GET', '/things')).statusCode, 200)
    assert.equal((await ask('GET', '/things', 'reader')).statusCode, 200)
    assert.equal((await ask('GET', '/own', 'reader')).statusCode, 200)
  })

  it('200 with valid, invalid or no credentials on a route that does its own authorization', async () => {
    for (const token of [undefined, 'reader', 'forged']) {
      assert.equal((await ask('POST', '/token', token)).statusCode, 200)
    }
  })

  it('401 AUTH_REQUIRED without a token, with no error code in the challenge (RFC 6750 §3.1)', async () => {
    for (const [method, url] of [
      ['POST', '/things'],
      ['GET', '/own'],
      ['HEAD', '/own'],
    ] as const) {
      const answer = await ask(method, url)
      assert.equal(answer.statusCode, 401, url)
      assert.equal(answer.headers['www-authenticate'], 'Bearer realm="plinth"')
      assert.equal(answer.headers['x-error-code'], 'AUTH_REQUIRED')
    }
  })

  it('401 AUTH_TOKEN_EXPIRED for an expired token', async () => {
    const answer = await ask('POST', '/things', 'expired')
    assert.equal(answer.statusCode, 401)
    assert.equal(answer.headers['www-authenticate'], 'Bearer realm="plinth", error="invalid_token"')
    assert.equal(answer.json().errorCode, 'AUTH_TOKEN_EXPIRED')
  })

  it('401 AUTH_TOKEN_INVALID for any other invalid token', async () => {
    const answer = await ask('GET', '/own', 'forged')
    assert.equal(answer.statusCode, 401)
    assert.equal(answer.headers['www-authenticate'], 'Bearer realm="plinth", error="invalid_token"')
    assert.equal(answer.json().errorCode, 'AUTH_TOKEN_INVALID')
  })

  it('401 for an invalid token, even on a public path', async () => {
    assert.equal((await ask('GET', '/things', 'expired')).json().errorCode, 'AUTH_TOKEN_EXPIRED')
    assert.equal((await ask('GET', '/things', 'forged')).statusCode, 401)
  })

  it('401 for a request with a token only in the query, because such tokens are ignored (T-JWT-10)', async () => {
    assert.equal((await ask('POST', '/things', undefined, '?access_token=writer')).statusCode, 401)
  })

  it('403 ACCESS_DENIED with the missing scope in the challenge', async () => {
    const answer = await ask('POST', '/things', 'reader')
    assert.equal(answer.statusCode, 403)
    assert.equal(
      answer.headers['www-authenticate'],
      'Bearer realm="plinth", error="insufficient_scope", scope="things:write"',
    )
    assert.equal(answer.json().errorCode, 'ACCESS_DENIED')
    assert.equal(answer.headers['cache-control'], 'no-store')
  })

  it('404 for an unknown path, 405 for an unsupported method and 204 for OPTIONS, without a valid token', async () => {
    assert.equal((await ask('GET', '/nothing', 'forged')).statusCode, 404)
    assert.equal((await ask('DELETE', '/things')).statusCode, 405)
    assert.equal((await ask('OPTIONS', '/own')).statusCode, 204)
  })

  it('403 for a POST without the required scope; X-HTTP-Method-Override: GET is ignored (T-API-02)', async () => {
    const headers = { 'x-http-method-override': 'GET' }
    const answer = await send(mounted, { method: 'POST', url: '/things', token: 'reader', headers })
    assert.equal(answer.statusCode, 403)
  })
})

describe('startup', () => {
  it('fails if a route declares no scope', async () => {
    const forgotten: ((app: FastifyInstance) => unknown)[] = [
      (app) => app.get('/forgotten', async () => 'secret'),
      (app) => app.get('/forgotten', { config: {} }, async () => 'secret'),
      (app) => app.get('/forgotten', { config: { cache: 'none' } }, async () => 'secret'),
    ]
    for (const route of forgotten) {
      const start = mount(['authorize'], (app) => void route(app))
      await assert.rejects(start, /The route \/forgotten declares no scope/)
    }
  })

  it('fails if a policy is registered before its dependencies', async () => {
    const early: [string, (app: FastifyInstance) => unknown][] = [
      ['methods', (app) => app.register(methods)],
      ['authenticate', (app) => app.register(authenticate, { verify })],
      ['authorize', (app) => app.register(authorize)],
      ['bodies', (app) => app.register(bodyParsing)],
      ['conditional', (app) => app.register(conditional)],
    ]
    for (const [name, register] of early) {
      const app = Fastify()
      register(app)
      await assert.rejects(async () => app.ready(), /dependency/, name)
    }
  })
})
