import assert from 'node:assert/strict'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import { apiScopes } from '../../src/oauth/tokens/scopes.ts'
import type { Database } from '../../src/storage/database.ts'
import { forEachEngine } from '../support/engines.ts'
import { issuer, sealer, served } from './support.ts'

const openid = '/.well-known/openid-configuration'

forEachEngine((engine) => {
  let db: Database
  let server: Awaited<ReturnType<typeof served>>
  let credentials: Record<string, string>
  before(async () => {
    db = await engine.database()
    server = await served(db)
    const machine = { name: 'Machine', scopes: ['reports:read'], grants: ['client_credentials'] }
    const { client, secret } = await createClient(db, sealer, builtIn.scopes, machine)
    credentials = { grant_type: 'client_credentials', client_id: client.id, client_secret: secret as string }
  })
  after(async () => {
    await server.close()
    await db.close()
  })

  const raw = async (path: string, headers: string[]) => {
    const { port } = new URL(server.base)
    const options = { host: '127.0.0.1', port, path, headers: headers as never, setHost: false }
    const response = await new Promise<import('node:http').IncomingMessage>((resolve, reject) =>
      request(options, resolve).on('error', reject).end(),
    )
    return JSON.parse(await text(response))
  }

  describe('the authorization server metadata', () => {
    const urls = {
      issuer,
      authorization_endpoint: `${issuer}/oauth/authorize`,
      token_endpoint: `${issuer}/oauth/token`,
      revocation_endpoint: `${issuer}/oauth/revoke`,
      introspection_endpoint: `${issuer}/oauth/introspect`,
      userinfo_endpoint: `${issuer}/oauth/userinfo`,
      jwks_uri: `${issuer}/oauth/jwks`,
      end_session_endpoint: `${issuer}/oauth/logout`,
    }

    it('contains only URLs that start with the issuer', async () => {
      const found = (await (await fetch(server.base + openid)).json()) as Record<string, unknown>
      const isUrl = ([, value]: [string, unknown]) => typeof value === 'string' && URL.canParse(value)
      assert.deepEqual(Object.fromEntries(Object.entries(found).filter(isUrl)), urls)
      assert.deepEqual(found.token_endpoint_auth_methods_supported, [
        'client_secret_basic',
        'client_secret_post',
        'none',
      ])
      assert.deepEqual(found.id_token_signing_alg_values_supported, ['RS256'])
      assert.deepEqual(found.response_types_supported, ['code', 'id_token'])
    })

    const hostile: [what: string, headers: string[]][] = [
      ['another Host header', ['Host', 'evil.example']],
      ['X-Forwarded-Host', ['Host', 'localhost', 'X-Forwarded-Host', 'evil.example', 'X-Forwarded-Proto', 'http']],
      ['Forwarded', ['Host', 'localhost', 'Forwarded', 'host=evil.example;proto=http']],
      ['two Host headers', ['Host', 'localhost:8443', 'Host', 'evil.example']],
      ['a malformed Host header', ['Host', 'evil.example/@x y']],
    ]
    for (const [what, headers] of hostile) {
      it(`is the same for ${what}`, async () => {
        assert.deepEqual(await raw(openid, headers), await (await fetch(server.base + openid)).json())
      })
    }

    it('is the same for a request target in absolute form', async () => {
      const found = await raw(`http://evil.example${openid}`, ['Host', 'evil.example'])
      assert.deepEqual(found, await (await fetch(server.base + openid)).json())
    })

    it('is the same at /.well-known/oauth-authorization-server (RFC 8414)', async () => {
      const found = await (await fetch(`${server.base}/.well-known/oauth-authorization-server`)).json()
      assert.deepEqual(found, await (await fetch(server.base + openid)).json())
    })

    it('200 for GET /.well-known/oauth-protected-resource (RFC 9728)', async () => {
      assert.deepEqual(await (await fetch(`${server.base}/.well-known/oauth-protected-resource`)).json(), {
        resource: issuer,
        authorization_servers: [issuer],
        scopes_supported: apiScopes(builtIn.scopes),
        bearer_methods_supported: ['header'],
      })
    })

    it('lists the same client authentication methods for all three endpoints that require authentication', async () => {
      const { base } = server
      const metadata = (await (await fetch(base + openid)).json()) as Record<string, unknown>
      for (const endpoint of ['token', 'revocation', 'introspection']) {
        const methods = metadata[`${endpoint}_endpoint_auth_methods_supported`]
        assert.deepEqual(methods, ['client_secret_basic', 'client_secret_post', 'none'])
      }
    })

    it('200 without a body for HEAD', async () => {
      const response = await fetch(server.base + openid, { method: 'HEAD' })
      assert.equal(response.status, 200)
      assert.equal(await response.text(), '')
    })
  })

  it('the authorization server sends the headers set by earlier hooks, even with an error', async () => {
    const bad = await server.post('/oauth/token', {})
    for (const response of [await fetch(server.base + openid), bad]) {
      assert.equal(response.headers.get('strict-transport-security'), 'max-age=31536000')
      assert.equal(response.headers.get('x-request-id'), 'request-1')
    }
  })

  it('the authorization server does not change a 429 from an earlier hook', async () => {
    const response = await server.post('/oauth/token', credentials, { 'x-refuse': 'yes' })
    assert.equal(response.status, 429)
    assert.equal(((await response.json()) as { message: string }).message, 'refused before')
  })

  it('the authorization server adds no CORS headers, even if the request has an Origin', async () => {
    const origin = { origin: 'https://evil.example' }
    const responses = [
      await fetch(server.base + openid, { headers: origin }),
      await server.post('/oauth/token', credentials, origin),
    ]
    for (const response of responses) {
      assert.equal(response.status, 200)
      assert.deepEqual(
        [...response.headers.keys()].filter((name) => name.startsWith('access-control-')),
        [],
      )
    }
  })

  describe('POST /oauth/token', () => {
    const send = (body: string | ReadableStream, contentType?: string) =>
      fetch(`${server.base}/oauth/token`, {
        method: 'POST',
        body: typeof body === 'string' ? Buffer.from(body) : body,
        headers: contentType ? { 'content-type': contentType } : {},
        duplex: 'half',
      } as RequestInit)
    const padded = (bytes: number) => {
      const form = `${new URLSearchParams(credentials)}&pad=`
      return form + 'x'.repeat(bytes - form.length)
    }
    const urlencoded = 'application/x-www-form-urlencoded'

    it('200 for a body of 56 KiB', async () => {
      assert.equal((await send(padded(56 * 1_024), urlencoded)).status, 200)
    })

    it('413 for a body over 56 KiB, with and without Content-Length', async () => {
      const stream = new Blob([padded(57_345)]).stream()
      for (const body of [padded(57_345), stream]) {
        const response = await send(body, urlencoded)
        assert.equal(response.status, 413)
        assert.equal(response.headers.get('cache-control'), 'no-store')
        assert.equal(((await response.json()) as { error: string }).error, 'invalid_request')
      }
    })

    for (const contentType of ['application/json', 'text/plain', 'multipart/form-data', 'no media type', undefined]) {
      it(`400 invalid_request for ${contentType ? `Content-Type '${contentType}'` : 'no Content-Type'}`, async () => {
        const response = await send(`${new URLSearchParams(credentials)}`, contentType)
        assert.equal(response.status, 400)
        assert.equal(((await response.json()) as { error: string }).error, 'invalid_request')
      })
    }

    it('200 for the form media type with a charset', async () => {
      assert.equal((await send(`${new URLSearchParams(credentials)}`, `${urlencoded}; charset=UTF-8`)).status, 200)
    })

    it('401 for credentials in the query', async () => {
      const response = await server.post(`/oauth/token?${new URLSearchParams(credentials)}`, {})
      assert.equal(response.status, 401)
    })
  })

  describe('GET /oauth/authorize', () => {
    const wrong = `/oauth/authorize?response_type=code&client_id=x&state=${encodeURIComponent('<script>"&\'')}`

    it('400 with a page that escapes the state', async () => {
      const response = await fetch(server.base + wrong, { headers: { accept: 'text/html' } })
      const html = await response.text()
      assert.equal(response.status, 400)
      assert.match(response.headers.get('content-type') ?? '', /^text\/html/)
      assert.match(response.headers.get('content-security-policy') ?? '', /frame-ancestors 'none'/)
      assert.equal(response.headers.get('cache-control'), 'no-store')
      assert.ok(html.includes('invalid_client') && html.includes('<dd>&lt;script&gt;&quot;&amp;&#39;</dd>'))
    })

    it('303 with Secure cookies for an https issuer, even if the listener serves plain HTTP', async () => {
      const redirectUris = ['https://app.example/cb']
      const app = { name: 'App', scopes: ['openid'], grants: ['authorization_code'], redirectUris }
      const { client } = await createClient(db, sealer, builtIn.scopes, app)
      const query = {
        client_id: client.id,
        response_type: 'code',
        redirect_uri: 'https://app.example/cb',
        scope: 'openid',
      }
      const url = `${server.base}/oauth/authorize?${new URLSearchParams(query)}`
      const response = await fetch(url, { redirect: 'manual' })
      assert.equal(response.status, 303)
      const cookies = response.headers.getSetCookie()
      assert.ok(cookies.length > 0 && cookies.every((cookie) => /; secure; httponly/.test(cookie)))
    })

    it('400 with JSON for Accept: application/json', async () => {
      const response = await fetch(server.base + wrong, { headers: { accept: 'application/json' } })
      assert.equal(response.status, 400)
      assert.equal(((await response.json()) as { error: string }).error, 'invalid_client')
    })
  })
})
