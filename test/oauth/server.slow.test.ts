import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it, mock } from 'node:test'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { clientCredentialsGrant, customFetch, discovery, tokenIntrospection, tokenRevocation } from 'openid-client'
import { operator } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import { revokeClient, updateClient } from '../../src/oauth/clients/update.ts'
import type { Database } from '../../src/storage/database.ts'
import { forEachEngine } from '../support/engines.ts'
import { basic, issuer, sealer, served } from './support.ts'

const machine = { name: 'Machine', scopes: ['reports:read', 'books:write'], grants: ['client_credentials'] }

forEachEngine((engine) => {
  let db: Database
  let server: Awaited<ReturnType<typeof served>>
  const printed = ['log', 'info', 'warn', 'error'].map((name) => mock.method(console, name as 'log', () => {}))
  before(async () => {
    db = await engine.database()
    server = await served(db)
  })
  after(async () => {
    await server.close()
    await db.close()
    for (const method of printed) method.mock.restore()
  })
  afterEach(() => {
    assert.deepEqual(server.failures.splice(0), [])
    assert.deepEqual(
      printed.flatMap(({ mock: { calls } }) => calls.map((call) => call.arguments)),
      [],
    )
  })

  const registered = async (change = {}) => {
    const { client, secret } = await createClient(db, sealer, builtIn.scopes, { ...machine, ...change })
    return { id: client.id, secret: secret as string }
  }
  const form = ({ id, secret }: { id: string; secret: string }) => ({ client_id: id, client_secret: secret })

  const full = Object.assign(new Error('database or disk is full'), { errcode: 13, code: '53100' })
  const refusing = () => served({ ...db, write: () => Promise.reject(full) }, { keys: server.keys })

  describe('POST /oauth/token with client_credentials', () => {
    it('200 for a secret in the form', async () => {
      const { status, headers, body } = await server.token(form(await registered()))
      assert.equal(status, 200)
      assert.equal(headers.get('cache-control'), 'no-store')
      assert.equal(headers.get('pragma'), 'no-cache')
      assert.match(headers.get('content-type') ?? '', /^application\/json/)
      const { access_token, ...rest } = body
      assert.match(access_token, /^[\w-]+\.[\w-]+\.[\w-]+$/)
      assert.deepEqual(rest, { token_type: 'Bearer', expires_in: 900, scope: 'reports:read books:write' })
    })

    it('200 whether the same client uses HTTP Basic or the form', async () => {
      const client = await registered({ secret: 'p@ss word:+%' })
      assert.equal((await server.token({}, basic(client.id, client.secret))).status, 200)
      assert.equal((await server.token(form(client))).status, 200)
    })

    it('200 with a JWT that has exactly the documented header and claims', async () => {
      const client = await registered()
      const { body } = await server.token({ ...form(client), scope: 'books:write' })
      const kid = server.keys.jwks.keys[0]?.kid
      assert.deepEqual(decodeProtectedHeader(body.access_token), { alg: 'RS256', typ: 'JWT', kid })
      const { iat = 0, jti, ...claims } = decodeJwt(body.access_token)
      assert.deepEqual(claims, {
        iss: issuer,
        sub: client.id,
        aud: issuer,
        exp: iat + 900,
        client_id: client.id,
        scope: 'books:write',
      })
      assert.ok(Math.abs(iat - Date.now() / 1_000) < 5)
      assert.match(jti ?? '', /^[\w-]{21,}$/)
    })

    it('200 for a resource that identifies this API, with or without a trailing slash', async () => {
      const client = await registered()
      for (const resource of [issuer, `${issuer}/`]) {
        const { body } = await server.token({ ...form(client), resource })
        assert.equal(decodeJwt(body.access_token).aud, issuer)
      }
    })

    it('400 invalid_target for a different resource', async () => {
      const { status, body } = await server.token({ ...form(await registered()), resource: 'https://other.example' })
      assert.equal(status, 400)
      assert.equal(body.error, 'invalid_target')
    })

    for (const scope of ['admin', 'reports:read admin', 'reports:burn', 'reports:read  books:write']) {
      it(`400 invalid_scope for "${scope}"`, async () => {
        const { status, body } = await server.token({ ...form(await registered()), scope })
        assert.equal(status, 400)
        assert.equal(body.error, 'invalid_scope')
      })
    }

    it('the same 401 for a wrong secret, the stored digest, an unknown client and a revoked client', async () => {
      const [client, revoked] = [await registered(), await registered()]
      assert.equal((await server.token(form(revoked))).status, 200)
      await revokeClient({ db, sealer, actor: operator }, revoked.id)
      const wrong = { ...client, secret: 'wrong' }
      const hash = sealer.digest(client.secret, `client:${client.id}`)
      for (const presented of [wrong, { ...client, secret: hash }, { ...client, id: 'nobody' }, revoked]) {
        const { status, headers, body } = await server.token(form(presented))
        assert.equal(status, 401)
        assert.equal(headers.get('cache-control'), 'no-store')
        assert.deepEqual(body, { error: 'invalid_client', error_description: 'client authentication failed' })
      }
    })

    it('401 with a Basic challenge for a wrong secret sent by HTTP Basic', async () => {
      const { status, headers } = await server.token({}, basic((await registered()).id, 'wrong'))
      assert.equal(status, 401)
      assert.match(headers.get('www-authenticate') ?? '', /^Basic realm="https:\/\/localhost:8443"/)
    })

    for (const path of ['/oauth/token', '/oauth/introspect', '/oauth/revoke']) {
      it(`401 invalid_client at ${path} without client authentication or with an unsupported method (RFC 6749 §5.2)`, async () => {
        for (const headers of [undefined, { authorization: 'Bearer x' }, { authorization: 'Digest x' }]) {
          const answer = await server.post(path, { grant_type: 'client_credentials', token: 'x' }, headers)
          const { error } = (await answer.json()) as { error: string }
          assert.deepEqual([answer.status, error], [401, 'invalid_client'])
          assert.match(answer.headers.get('www-authenticate') ?? '', /^Basic realm="https:/)
        }
      })
    }

    it('400 for a secret sent by two methods', async () => {
      const client = await registered()
      const { status, body } = await server.token(form(client), basic(client.id, client.secret))
      assert.equal(status, 400)
      assert.equal(body.error, 'invalid_request')
    })

    it('400 for a parameter sent twice', async () => {
      const client = Object.entries(form(await registered()))
      const twice = [...client, ['grant_type', 'client_credentials'], ['scope', 'a'], ['scope', 'b']] as [
        string,
        string,
      ][]
      assert.equal((await server.post('/oauth/token', twice)).status, 400)
    })

    it('400 for a public client, and for a grant that the client does not have', async () => {
      const redirectUris = ['https://app.example/cb']
      const app = { scopes: ['openid'], grants: ['authorization_code'], redirectUris }
      const { client } = await createClient(db, sealer, builtIn.scopes, { name: 'App', ...app, secret: null })
      assert.equal((await server.token({ client_id: client.id })).status, 400)
      assert.equal((await server.token(form(await registered(app)))).status, 400)
    })

    it('400 unsupported_grant_type for an unknown grant', async () => {
      const { status, body } = await server.token({ ...form(await registered()), grant_type: 'magic' })
      assert.equal(status, 400)
      assert.equal(body.error, 'unsupported_grant_type')
    })

    it('401 as JSON even if Accept prefers HTML', async () => {
      const response = await server.post('/oauth/token', { grant_type: 'x' }, { accept: 'text/html' })
      assert.equal(response.status, 401)
      assert.match(response.headers.get('content-type') ?? '', /^application\/json/)
    })

    it('200 with typ at+jwt in the token’s header, if configured', async () => {
      const other = await served(db, { keys: server.keys, accessTokenType: 'at+jwt', accessTokenSeconds: 60 })
      const { body } = await other.token(form(await registered()))
      await other.close()
      assert.equal(decodeProtectedHeader(body.access_token).typ, 'at+jwt')
      assert.equal(body.expires_in, 60)
    })

    it('200 even if the disk is full, because client-credentials tokens are not stored', async () => {
      const other = await refusing()
      const { status } = await other.token(form(await registered()))
      await other.close()
      assert.equal(status, 200)
      assert.deepEqual(other.failures, [])
    })
  })

  describe('POST /oauth/introspect', () => {
    const introspect = async (client: { id: string; secret: string }, token: string) => {
      const response = await server.post('/oauth/introspect', { ...form(client), token })
      assert.equal(response.headers.get('cache-control'), 'no-store')
      return { status: response.status, body: (await response.json()) as Record<string, unknown> }
    }

    it('200 with claims for the client’s own token, and for any token if the client has introspectsOthers', async () => {
      const [client, resourceServer] = [await registered(), await registered({ introspectsOthers: true })]
      const { access_token } = (await server.token(form(client))).body
      const { iat, exp } = decodeJwt(access_token)
      const expected = {
        active: true,
        client_id: client.id,
        sub: client.id,
        iss: issuer,
        aud: issuer,
        scope: 'reports:read books:write',
        token_type: 'Bearer',
        iat,
        exp,
      }
      for (const asking of [client, resourceServer]) {
        assert.deepEqual(await introspect(asking, access_token), { status: 200, body: expected })
      }
    })

    it('200 with only {"active":false} for another client’s token (RFC 7662 §2.2)', async () => {
      const [client, stranger] = [await registered(), await registered({ introspectsOthers: false })]
      const { access_token } = (await server.token(form(client))).body
      assert.deepEqual(await introspect(stranger, access_token), { status: 200, body: { active: false } })
      assert.equal((await introspect(client, access_token)).body.active, true)
    })

    it('200 with claims for another client’s token as soon as introspectsOthers is set, and until it is unset', async () => {
      const [client, gateway] = [await registered(), await registered()]
      const { access_token } = (await server.token(form(client))).body
      const active = async () => (await introspect(gateway, access_token)).body.active
      const mark = (introspectsOthers: boolean) =>
        updateClient({ db, sealer, actor: operator }, builtIn.scopes, gateway.id, { introspectsOthers })
      assert.equal(await active(), false)
      await mark(true)
      assert.equal(await active(), true)
      await mark(false)
      assert.equal(await active(), false)
    })

    it('200 with {"active":false} for anything other than a valid token, including a bare jti', async () => {
      const client = await registered()
      const { access_token } = (await server.token(form(client))).body
      const [header, payload, signature = ''] = access_token.split('.')
      const tampered = `${header}.${payload}.${signature.slice(0, 9)}${signature[9] === 'A' ? 'B' : 'A'}${signature.slice(10)}`
      for (const token of ['opaque', 'a.b.c', tampered, decodeJwt(access_token).jti as string]) {
        assert.deepEqual(await introspect(client, token), { status: 200, body: { active: false } })
      }
    })

    it('401 for a wrong secret', async () => {
      const client = await registered()
      assert.equal((await introspect({ ...client, secret: 'wrong' }, 'x')).status, 401)
    })
  })

  describe('POST /oauth/revoke', () => {
    const isActive = async (client: { id: string; secret: string }, token: string) => {
      const response = await server.post('/oauth/introspect', { ...form(client), token })
      return ((await response.json()) as { active: boolean }).active
    }

    it('200, and the token becomes inactive; 200 again if repeated, and for an unknown token', async () => {
      const client = await registered()
      const { access_token } = (await server.token(form(client))).body
      for (const token of [access_token, access_token, 'never']) {
        const response = await server.post('/oauth/revoke', { token }, basic(client.id, client.secret))
        assert.equal(response.status, 200)
        assert.equal(await response.text(), '')
        assert.equal(await isActive(client, access_token), false)
      }
    })

    it('400 for another client’s token, which stays active', async () => {
      const [client, other] = [await registered(), await registered()]
      const { access_token } = (await server.token(form(client))).body
      const response = await server.post('/oauth/revoke', { ...form(other), token: access_token })
      assert.equal(response.status, 400)
      assert.equal(await isActive(client, access_token), true)
    })

    it('503 temporarily_unavailable if the database cannot write; the error is reported', async () => {
      const client = await registered()
      const { access_token: token } = (await server.token(form(client))).body
      const other = await refusing()
      const response = await other.post('/oauth/revoke', { ...form(client), token })
      const body = (await response.json()) as { error: string }
      await other.close()
      assert.equal(response.status, 503)
      assert.equal(body.error, 'temporarily_unavailable')
      assert.ok(response.headers.has('retry-after') && response.headers.has('strict-transport-security'))
      assert.deepEqual(other.failures, [full])
    })
  })

  it('the unmodified openid-client discovers the server, and gets, introspects and revokes a token', async () => {
    const { id, secret } = await registered()
    const local = (url: string, options: object) => fetch(url.replace(issuer, server.base), options)
    const config = await discovery(new URL(issuer), id, secret, undefined, { [customFetch]: local })
    const { access_token, expires_in } = await clientCredentialsGrant(config, { scope: 'reports:read' })
    assert.equal(expires_in, 900)
    assert.equal((await tokenIntrospection(config, access_token)).active, true)
    await tokenRevocation(config, access_token)
    assert.equal((await tokenIntrospection(config, access_token)).active, false)
  })

  for (const path of ['/oauth/logout', '/oauth/logout/success']) {
    it(`GET ${path}: 200 with a page that is not cacheable`, async () => {
      const response = await fetch(server.base + path, { headers: { accept: 'text/html' } })
      assert.equal(response.status, 200)
      assert.equal(response.headers.get('cache-control'), 'no-store')
    })
  }

  it('GET /oauth/jwks: 200 with the public key and no private members', async () => {
    const response = await fetch(`${server.base}/oauth/jwks`)
    const { keys } = (await response.json()) as { keys: Record<string, unknown>[] }
    const [own] = server.keys.jwks.keys
    assert.deepEqual(keys, [{ kty: 'RSA', use: 'sig', alg: 'RS256', kid: own?.kid, e: own?.e, n: own?.n }])
    assert.equal(response.headers.get('cache-control'), 'public, max-age=300')
  })

  const documents = ['jwks', 'openid-configuration', 'oauth-authorization-server', 'oauth-protected-resource']
  for (const path of documents.map((name) => (name === 'jwks' ? '/oauth/jwks' : `/.well-known/${name}`))) {
    it(`GET ${path}: 200, cacheable by shared caches only if the request has no credentials`, async () => {
      const requests = [{}, { 'x-api-key': 'key' }, { authorization: 'Basic Zm9vOmJhcg==' }]
      const responses = await Promise.all(requests.map((headers) => fetch(server.base + path, { headers })))
      const cached = responses.map(({ status, headers }) => [status, headers.get('cache-control')])
      const own = [200, 'private, max-age=300']
      assert.deepEqual(cached, [[200, 'public, max-age=300'], own, own])
      for (const { headers } of responses) assert.match(String(headers.get('vary')), /\bAuthorization, X-API-Key\b/)
    })
  }
})
