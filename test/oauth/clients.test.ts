import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { operator } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { Problem } from '../../src/http/problems/problem.ts'
import { ensureBootstrapClient } from '../../src/oauth/clients/bootstrap-client.ts'
import { clientSecretContext, createClient, findClient, listClients } from '../../src/oauth/clients/clients.ts'
import { isNativeUri, isRedirectUri } from '../../src/oauth/clients/redirect-uris.ts'
import { revokeClient } from '../../src/oauth/clients/update.ts'
import type { NewClient } from '../../src/oauth/clients/validate.ts'
import type { Database } from '../../src/storage/database.ts'
import { forEachEngine } from '../support/engines.ts'
import { sealer } from './support.ts'

const machine = { name: 'Machine', scopes: ['reports:read'], grants: ['client_credentials'] }

forEachEngine((engine) => {
  let db: Database
  before(async () => {
    db = await engine.database()
  })
  after(() => db.close())

  describe('createClient', () => {
    it('generates a 128-bit id and a 256-bit secret, and stores only a digest of the secret', async () => {
      const { client, secret } = await createClient(db, sealer, builtIn.scopes, machine)
      assert.match(client.id, /^cli_[\w-]{22}$/)
      assert.match(secret ?? '', /^[\w-]{43}$/)
      assert.equal(client.secretHash, sealer.digest(secret ?? '', clientSecretContext(client.id)))
      assert.deepEqual(await findClient(db, client.id), client)
    })

    it('creates no secret for a public client', async () => {
      const app = {
        name: 'App',
        scopes: ['openid'],
        grants: ['authorization_code'],
        redirectUris: ['https://a.example/cb'],
      }
      const { client, secret } = await createClient(db, sealer, builtIn.scopes, { ...app, secret: null })
      assert.equal(secret, null)
      assert.equal(client.secretHash, null)
    })

    it('throws DUPLICATE_RESOURCE for an id in use', async () => {
      await createClient(db, sealer, builtIn.scopes, { ...machine, id: 'taken' })
      await assert.rejects(createClient(db, sealer, builtIn.scopes, { ...machine, id: 'taken' }), {
        code: 'DUPLICATE_RESOURCE',
      })
    })

    const wrong: [field: string, change: Partial<NewClient>, message: RegExp][] = [
      ['scopes', { scopes: ['reports:read', 'reports:burn'] }, /reports:burn.*reports:write/],
      ['scopes', { scopes: ['toString'] }, /toString/],
      ['scopes', { scopes: [] }, /at least one/],
      ['grants', { grants: ['magic'] }, /magic/],
      ['grants', { grants: ['password'] }, /trusted/],
      ['redirectUris', { grants: ['implicit'] }, /at least one URI/],
      ['redirectUris', { grants: ['implicit'], redirectUris: ['http://localhost/cb'] }, /https URIs/],
      ['redirectUris', { grants: ['implicit'], redirectUris: ['https://localhost/cb'] }, /not on localhost/],
      ['redirectUris', { redirectUris: ['com.example.app:/cb'] }, /private-use scheme/],
      ['postLogoutRedirectUris', { postLogoutRedirectUris: ['http://a.example/'] }, /a\.example/],
      ['redirectUris', { redirectUris: Array(21).fill('https://a.example/cb') }, /at most 20 URIs/],
      ['grants', { grants: [] }, /at least one/],
      ['grants', { secret: null }, /without a secret/],
      ['redirectUris', { grants: ['authorization_code'] }, /at least one URI/],
      ['redirectUris', { redirectUris: ['http://app.example/'] }, /app\.example/],
      ['id', { id: 'https://localhost:8443' }, /128 characters/],
      ['id', { id: '7' }, /not digits or dots alone/],
      ['id', { id: '.' }, /not digits or dots alone/],
      ['id', { id: '..' }, /not digits or dots alone/],
      ['name', { name: '' }, /1 to 200/],
      ['secret', { secret: 'naïve' }, /ASCII/],
    ]
    for (const [field, change, message] of wrong) {
      it(`throws VALIDATION_ERROR with an error in ${field} for ${JSON.stringify(change)}`, async () => {
        const error = await createClient(db, sealer, builtIn.scopes, { ...machine, ...change }).catch(
          (caught: unknown) => caught,
        )
        assert.ok(error instanceof Problem)
        assert.equal(error.code, 'VALIDATION_ERROR')
        assert.equal(error.errors?.[0]?.field, field)
        assert.match(error.errors?.[0]?.message ?? '', message)
      })
    }
  })

  describe('revokeClient', () => {
    const change = () => ({ db, sealer, actor: operator })

    it('revokes a client: it is still listed but no longer found, and revoking it again throws RESOURCE_NOT_FOUND', async () => {
      const { client } = await createClient(db, sealer, builtIn.scopes, machine)
      await revokeClient({ ...change(), now: () => 1_000 }, client.id)
      await assert.rejects(revokeClient(change(), client.id), { code: 'RESOURCE_NOT_FOUND' })
      assert.equal(await findClient(db, client.id), undefined)
      const listed = (await listClients(db)).find(({ id }) => id === client.id)
      assert.equal(listed?.revokedAt, '1970-01-01T00:00:01.000Z')
    })

    it('throws RESOURCE_NOT_FOUND for an unknown client', async () => {
      await assert.rejects(revokeClient(change(), 'nobody'), { code: 'RESOURCE_NOT_FOUND' })
    })
  })

  describe('ensureBootstrapClient', () => {
    it('creates one client with every scope and keeps its secret equal to the setting, even after a revocation', async () => {
      await ensureBootstrapClient(db, sealer, builtIn.scopes, 'bootstrap', 'first secret')
      await revokeClient({ db, sealer, actor: operator }, 'bootstrap')
      await ensureBootstrapClient(db, sealer, builtIn.scopes, 'bootstrap', 'second secret')
      await ensureBootstrapClient(db, sealer, builtIn.scopes, 'bootstrap', 'second secret')
      const client = await findClient(db, 'bootstrap')
      assert.deepEqual(client?.scopes, Object.keys(builtIn.scopes))
      assert.deepEqual(client?.grants, ['client_credentials'])
      assert.equal(client?.secretHash, sealer.digest('second secret', clientSecretContext('bootstrap')))
    })

    it('throws VALIDATION_ERROR for an empty secret', async () => {
      await assert.rejects(ensureBootstrapClient(db, sealer, builtIn.scopes, 'bootstrap', ''), {
        code: 'VALIDATION_ERROR',
      })
    })
  })
})

const redirectUris = ['https://app.example/cb?x=1', 'http://127.0.0.1:4000/', 'http://[::1]/cb', 'com.example.app:/cb']

describe('isRedirectUri', () => {
  for (const uri of ['https://[::1]/', 'https://bücher.example/cb', 'https://192.0.2.1:8443/', 'https://localhost/cb'])
    it(`returns true for ${uri}`, () => assert.equal(isRedirectUri(uri), true))
  const wrong = [
    'http://app.example/',
    'http://127.0.0.1.evil.example/',
    'https://u:p@a.example/',
    'https://a.example/#x',
  ]
  const odd = ['javascript:alert(1)', 'data:,x', 'app:/cb', '/cb', '', 'https://*.example/', 'https://a.example/ b']
  const hosts = ['a;sandbox', "a'b", 'a,b', 'a!b', 'a..b', '%2a.example', 'a_b.example', 'a$', '.'].map(
    (host) => `https://${host}/cb`,
  )
  const control = ['\0', '\x01', '\x7f', '\x85', '\u200b', '\ud800'].flatMap((char) => [
    `https://app.example/cb${char}`,
    `com.example.app:/cb${char}`,
    `http://127.0.0.1/${char}`,
  ])
  for (const uri of [...hosts, ...control])
    it(`returns false for ${JSON.stringify(uri)}`, () => assert.equal(isRedirectUri(uri), false))
  for (const uri of redirectUris) it(`returns true for ${uri}`, () => assert.equal(isRedirectUri(uri), true))
  for (const uri of [...wrong, ...odd]) it(`returns false for "${uri}"`, () => assert.equal(isRedirectUri(uri), false))
})

describe('isNativeUri', () => {
  it('returns true only for loopback and private-use URIs', () => {
    assert.deepEqual(redirectUris.map(isNativeUri), [false, true, true, true])
  })
})
