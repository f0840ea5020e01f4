import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Script } from 'node:vm'
import { gunzipSync } from 'node:zlib'
import { docs } from '../../src/openapi/reference-page.ts'
import { type Mounted, mount, send } from './support.ts'

const options = {
  documents: { '/openapi.json': { title: 'All' }, '/v2/openapi.json': { title: 'v2' } },
  baseUrl: 'https://plinth.test',
  clientId: 'docs',
  firstCalls: [
    { path: '/products', isPublic: true },
    { path: '/users', isPublic: false },
  ],
}

interface Scheme {
  flows: Record<string, Record<string, unknown>>
  'x-default-scopes'?: string[]
}

const flows = { clientCredentials: { tokenUrl: '/t' }, authorizationCode: { scopes: { openid: '', admin: '' } } }
const document = {
  info: { title: 'All', description: 'Words.' },
  externalDocs: { url: '/docs' },
  components: { securitySchemes: { oauth2: { type: 'oauth2', flows }, bearer: {} } },
}

/** Runs the page's script as a browser would, and returns what the script's `fetch` returns for `url`. */
async function shown(script: string, url = 'https://plinth.test/openapi.json') {
  let configuration: { fetch?: (input: string) => Promise<typeof document> } = {}
  const Scalar = { createApiReference: (_place: string, given: object) => (configuration = given) }
  const answered = { ok: true, url, json: async () => structuredClone(document) }
  const browser = { Scalar, URL, Response: { json: (body: unknown) => body } }
  new Script(script).runInNewContext({ ...browser, fetch: async () => answered, location: { origin: 'https://x' } })
  return configuration.fetch?.(url)
}

describe('the API reference page', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['authorize', 'conditional'], (app) => {
      app.register(docs, options)
    })
  })
  after(() => mounted.app.close())
  const get = (url: string, headers: Record<string, string> = {}) => send(mounted, { method: 'GET', url, headers })

  it('200 for everyone, with a CSP that allows no inline scripts and no other hosts', async () => {
    const { statusCode, headers, body } = await get('/docs')
    assert.equal(statusCode, 200)
    assert.equal(headers['content-type'], 'text/html; charset=utf-8')
    const policy = String(headers['content-security-policy'])
    assert.match(policy, /default-src 'none'; script-src 'self'; .*connect-src 'self'; .*frame-ancestors 'none'/)
    assert.doesNotMatch(policy, /https?:|\*|unsafe-eval/)
    assert.doesNotMatch(body, /<script(?! src="\/docs\/)|https?:|\son\w+=/)
    assert.match(body, /<noscript>.*href="\/openapi\.json".*href="\/v2\/openapi\.json".*<\/noscript>/s)
  })

  it("200 with the page's script, compressed for clients that accept gzip", async () => {
    const packed = await get('/docs/reference.js', { 'accept-encoding': 'br, gzip;q=0.5' })
    const plain = await get('/docs/reference.js', { 'accept-encoding': 'br, gzip;q=0' })
    assert.equal(packed.headers['content-encoding'], 'gzip')
    assert.equal(plain.headers['content-encoding'], undefined)
    assert.ok(packed.rawPayload.length < 2_000_000 && plain.rawPayload.length > 4_000_000)
    assert.ok(gunzipSync(packed.rawPayload).equals(plain.rawPayload))
    assert.ok(new Script(plain.body), 'it is JavaScript')
    assert.match(String(packed.headers.vary), /Accept-Encoding/)
    assert.notEqual(packed.headers.etag, plain.headers.etag)
  })

  it('304 for a client that already has the script in the requested coding', async () => {
    const coding = { 'accept-encoding': 'gzip' }
    const { etag } = (await get('/docs/reference.js', coding)).headers
    for (const known of [String(etag), `"x", W/${etag}`, '*']) {
      const answer = await get('/docs/reference.js', { ...coding, 'if-none-match': known })
      assert.deepEqual([answer.statusCode, answer.body, answer.headers.etag], [304, '', etag], known)
    }
    const other = await get('/docs/reference.js', { 'if-none-match': String(etag) })
    assert.equal(other.statusCode, 200, 'the unpacked form has a tag of its own')
  })

  it('explains, above the description, how to get a token and make the first call', async () => {
    const { info, ...others } = (await shown((await get('/docs/start.js')).body)) ?? document
    const commands = /```sh\n(.*?)\n```/s.exec(info.description)?.[1]
    assert.equal(
      commands,
      [
        'curl -u CLIENT_ID:CLIENT_SECRET \\',
        '  -d grant_type=client_credentials \\',
        '  https://plinth.test/oauth/token',
        'curl -H "Authorization: Bearer ACCESS_TOKEN" \\',
        '  https://plinth.test/users',
      ].join('\n'),
    )
    assert.match(info.description, /^## Start here\n.*Authorize.*\(https:\/\/plinth\.test\/products\).*\n\nWords\.$/s)
    assert.ok(!('externalDocs' in others), 'a link to the page itself is of no use on it')
  })

  it('offers login first, with every scope, if there is a public client', async () => {
    const { components } = (await shown((await get('/docs/start.js')).body)) ?? document
    const scheme = components.securitySchemes.oauth2 as unknown as Scheme
    assert.deepEqual(Object.keys(scheme.flows), ['authorizationCode', 'clientCredentials'])
    assert.equal(scheme.flows.authorizationCode?.['x-scalar-client-id'], 'docs')
    assert.equal(scheme.flows.authorizationCode?.['x-scalar-redirect-uri'], 'https://x/docs')
    assert.deepEqual([...(scheme['x-default-scopes'] ?? [])], ['openid', 'admin'])
  })

  it('explains how to register a client and leaves the security schemes unchanged if there is no public client', async () => {
    const others = await mount(['authorize', 'conditional'], (app) => {
      app.register(docs, { ...options, clientId: null })
    })
    const { body } = await send(others, { url: '/docs/start.js' })
    await others.app.close()
    const { info, components } = (await shown(body)) ?? document
    assert.deepEqual(structuredClone(components.securitySchemes), document.components.securitySchemes)
    assert.match(info.description, /plinth clients create/)
    assert.doesNotMatch(info.description, /press \*\*Authorize/)
  })

  it('does not modify responses to the requests that users send from the page', async () => {
    const { body } = await get('/docs/start.js')
    const answer = (await shown(body, 'https://plinth.test/users')) as unknown as { url: string }
    assert.equal(answer.url, 'https://plinth.test/users')
  })
})
