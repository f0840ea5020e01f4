import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import { Problem } from '../../src/http/problems/problem.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import { trustedIssuerKeys } from '../../src/oauth/tokens/trusted-issuer-keys.ts'
import { tokenVerifier } from '../../src/oauth/tokens/verify.ts'
import type { Database } from '../../src/storage/database.ts'
import { onSqlite } from '../support/engines.ts'
import { fields, keys, signed, signedText, start } from './forgery.ts'
import { clock, issuer, sealer } from './support.ts'

const theirs = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const rotated = generateKeyPairSync('ed25519')
const jwkOf = ({ publicKey }: typeof theirs, kid: string) => ({ ...publicKey.export({ format: 'jwk' }), kid })
const invalid = { refused: 'AUTH_TOKEN_INVALID' }

/** Starts a minimal OpenID Connect issuer that serves its discovery document and its keys. */
async function outsider() {
  const served = { issuer: '', jwksUri: '', keys: [jwkOf(theirs, 'theirs')] as object[], status: 200, hits: 0, pad: 0 }
  const server: Server = createServer((request, response) => {
    served.hits++
    const isDiscovery = request.url === '/.well-known/openid-configuration'
    const body = isDiscovery ? { issuer: served.issuer, jwks_uri: served.jwksUri } : { keys: served.keys }
    const headers = { location: 'http://127.0.0.1:1/', 'content-type': 'application/json' }
    response.writeHead(served.status, headers).end(JSON.stringify({ ...body, pad: 'x'.repeat(served.pad) }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  Object.assign(served, { issuer: base, jwksUri: `${base}/keys` })
  return { base, served, close: () => server.close() }
}

onSqlite((engine) => {
  let db: Database
  let idp: Awaited<ReturnType<typeof outsider>>
  let faults: unknown[]
  const closers: (() => unknown)[] = []
  before(async () => {
    db = await engine.database()
    const client = { id: 'alpha', name: 'Alpha', grants: ['client_credentials'] }
    await createClient(db, sealer, builtIn.scopes, { ...client, scopes: ['reports:read', 'books:write'] })
  })
  after(() => db.close())
  beforeEach(async () => {
    idp = await outsider()
    faults = []
  })
  afterEach(async () => {
    for (const close of closers.splice(0)) await close()
    idp.close()
  })

  const verifier = (policy = { allowHttp: true, allowCidrs: ['127.0.0.0/8'] }, name = idp.base) => {
    const time = clock(start)
    const found = trustedIssuerKeys({ issuer: name, policy, now: time.now, onError: (error) => faults.push(error) })
    closers.push(found.close)
    const trusted = { issuer: name, keys: found, scopes: new Set(['reports:read', 'users:read']) }
    return { ...time, verify: tokenVerifier({ issuer, audience: issuer, keys, db, now: time.now, trusted }) }
  }
  const token = (change = {}, header = {}, key = theirs.privateKey) =>
    signed({ iss: idp.base, sub: '1', ...change }, { alg: 'ES256', kid: 'theirs', ...header }, key)

  it('tokenVerifier prefixes the caller’s ids with the trusted issuer and keeps only allowed scopes', async () => {
    const { verify } = verifier()
    const verification = await verify(await token({ scope: 'reports:read admin books:write openid' }))
    assert.deepEqual(verification, {
      caller: { clientId: `${idp.base}#alpha`, subject: `${idp.base}#1`, scopes: new Set(['reports:read']) },
    })
  })

  it('tokenVerifier accepts azp or sub instead of client_id, several audiences, and typ at+jwt (RFC 9068)', async () => {
    const { verify } = verifier()
    const change = { client_id: undefined, azp: 'app', aud: ['account', issuer], jti: undefined }
    for (const [more, client] of [
      [{}, 'app'],
      [{ azp: undefined }, '1'],
    ] as const) {
      const verification = await verify(await token({ ...change, ...more }, { typ: 'at+jwt' }))
      assert.ok('caller' in verification)
      assert.equal(verification.caller.clientId, `${idp.base}#${client}`)
    }
  })

  it('tokenVerifier fetches no keys for a token from the service itself', async () => {
    const { verify } = verifier()
    const verification = await verify(await signed())
    assert.ok('caller' in verification)
    assert.equal(verification.caller.clientId, 'alpha')
    assert.equal(idp.served.hits, 0)
  })

  const wrong: [what: string, change: object | (() => object), header?: object][] = [
    ['a different audience (T-JWT-08)', { aud: 'https://other.example' }],
    ['an ID token, which is for a client (T-JWT-08)', { aud: 'alpha', scope: undefined }],
    ['an issuer that starts with the trusted issuer (T-JWT-08)', () => ({ iss: `${idp.base}.evil` })],
    ['the trusted issuer with a final slash (T-JWT-08)', () => ({ iss: `${idp.base}/` })],
    ['scope as an array (T-JWT-08)', { scope: ['reports:read'] }],
    ['no scope (T-JWT-08)', { scope: undefined }],
    ['no subject (T-JWT-08)', { sub: undefined }],
    ['a different typ (T-JWT-08)', {}, { typ: 'logout+jwt' }],
    ['no exp (T-JWT-09)', { exp: undefined }],
    ['exp as a string (T-JWT-09)', { exp: `${fields.exp}` }],
    ['nbf in the future (T-JWT-09)', { nbf: fields.iat + 31 }],
    ['iat in the future (T-JWT-09)', { iat: fields.iat + 31 }],
    ['no iat (T-JWT-09)', { iat: undefined }],
    ['iat as a string (T-JWT-09)', { iat: `${fields.iat}` }],
    ['an unknown kid (T-JWT-03)', {}, { kid: 'unknown' }],
  ]
  for (const [what, change, header] of wrong) {
    it(`tokenVerifier returns AUTH_TOKEN_INVALID for ${what}`, async () => {
      assert.deepEqual(
        await verifier().verify(await token(typeof change === 'function' ? change() : change, header)),
        invalid,
      )
    })
  }

  it('tokenVerifier returns AUTH_TOKEN_INVALID for a duplicate claim at any depth, escaped or not', async () => {
    const { verify } = verifier()
    const all = JSON.stringify({ ...fields, iss: idp.base, sub: '7', cnf: { a: '"b":' } })
    const sent = (text: string) => signedText(text, { alg: 'ES256', kid: 'theirs' }, theirs.privateKey)
    assert.ok('caller' in (await verify(await sent(all))))
    for (const twice of [
      '{"sub":"8",',
      '{"s\\u0075b" : "8",',
      '{"more":[{"a":1,"a":2}],',
      '{"__proto__":1,"__proto__":2,',
    ])
      assert.deepEqual(await verify(await sent(all.replace('{', twice))), invalid, twice)
  })

  it('tokenVerifier returns AUTH_TOKEN_INVALID for a token signed with the key of a different issuer', async () => {
    const { verify } = verifier()
    assert.deepEqual(await verify(await signed({ iss: idp.base })), invalid)
    assert.deepEqual(await verify(await token({ iss: issuer })), invalid)
  })

  it('tokenVerifier accepts a token 29 seconds after it expires, but returns AUTH_TOKEN_EXPIRED after 31', async () => {
    const { verify, pass } = verifier()
    const [cached, late, tooLate] = [await token(), await token({ jti: 'late' }), await token({ jti: 'too late' })]
    assert.ok('caller' in (await verify(cached)))
    pass(900 + 29)
    for (const sent of [cached, late]) assert.ok('caller' in (await verify(sent)))
    pass(2)
    for (const sent of [cached, late, tooLate]) {
      assert.deepEqual(await verify(sent), { refused: 'AUTH_TOKEN_EXPIRED' })
    }
  })

  describe('the issuer’s keys', () => {
    it('T-JWT-03 are fetched at most once every 30 seconds, even for 1,000 tokens with unknown kids', async () => {
      const { verify, pass } = verifier()
      const unknown = (n: number) => token({}, { kid: `k${n}` })
      await Promise.all(Array.from({ length: 1_000 }, async (_, n) => verify(await unknown(n))))
      assert.equal(idp.served.hits, 2, 'discovery and keys')
      pass(29)
      await verify(await unknown(1))
      assert.equal(idp.served.hits, 2)
      pass(1)
      await verify(await unknown(1))
      assert.equal(idp.served.hits, 4)
    })

    it('are refreshed after a rotation; tokens signed with a withdrawn key are rejected half a minute later', async () => {
      const { verify, pass } = verifier()
      const old = await token()
      assert.ok('caller' in (await verify(old)))
      idp.served.keys = [jwkOf(rotated, 'new')]
      pass(31)
      assert.ok('caller' in (await verify(await token({}, { alg: 'EdDSA', kid: 'new' }, rotated.privateKey))))
      pass(30)
      assert.deepEqual(await verify(old), invalid)
    })

    it('T-JWT-04 are never fetched from a URL in a token', async () => {
      const canary = await outsider()
      const jku = canary.served.jwksUri
      assert.deepEqual(await verifier().verify(await token({}, { kid: 'x', jku, x5u: jku })), invalid)
      assert.equal(canary.served.hits, 0)
      canary.close()
    })
  })

  const unavailable = async (verify: ReturnType<typeof verifier>['verify']) => {
    const error = await Promise.resolve(verify(await token())).catch((caught: unknown) => caught)
    assert.ok(error instanceof Problem)
    assert.equal(error.code, 'SERVICE_UNAVAILABLE')
    return String(faults.at(-1))
  }

  describe('SERVICE_UNAVAILABLE, not AUTH_TOKEN_INVALID, if the keys cannot be fetched because of', () => {
    const failures: [what: string, change: () => object, reason: RegExp][] = [
      ['an error response', () => ({ status: 500 }), /responded with 500/],
      ['a redirect, which is not followed', () => ({ status: 302 }), /responded with 302/],
      ['a document from a different issuer', () => ({ issuer: 'https://evil.example' }), /names another issuer/],
      ['a missing jwks_uri', () => ({ jwksUri: 1 }), /has no jwks_uri/],
      ['a response that is too large', () => ({ pad: 300_000 }), /more than 262144 bytes/],
      ['a jwks_uri in a private network', () => ({ jwksUri: 'http://10.0.0.1/keys' }), /private or reserved/],
      ['a jwks_uri with a file: URL', () => ({ jwksUri: 'file:///etc/passwd' }), /absolute https URL/],
    ]
    for (const [what, change, reason] of failures) {
      it(what, async () => {
        Object.assign(idp.served, change())
        assert.match(await unavailable(verifier().verify), reason)
      })
    }

    it('a disallowed issuer address (T-SSRF)', async () => {
      const closed = verifier({ allowHttp: true, allowCidrs: [] })
      assert.match(await unavailable(closed.verify), /private or reserved/)
      assert.equal(idp.served.hits, 0)
    })

    it('plain HTTP where it is not allowed', async () => {
      const strict = verifier({ allowHttp: false, allowCidrs: ['127.0.0.0/8'] })
      assert.match(await unavailable(strict.verify), /must use https/)
    })
  })

  it('tokenVerifier uses cached keys while the issuer is down, but not for more than a day', async () => {
    const { verify, pass } = verifier()
    await verify(await token())
    idp.served.status = 500
    for (const seconds of [700, 40_000]) {
      pass(seconds)
      const exp = fields.exp + 50_000
      assert.ok('caller' in (await verify(await token({ exp, jti: `${seconds}` }))))
    }
    pass(50_000)
    await unavailable(verify)
  })
})
