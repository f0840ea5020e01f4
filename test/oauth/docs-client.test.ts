import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import { findClient } from '../../src/oauth/clients/clients.ts'
import { docsClientId, syncDocsClient } from '../../src/oauth/clients/docs-client.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer } from '../../src/storage/encryption.ts'
import { forEachEngine } from '../support/engines.ts'

forEachEngine((engine) => {
  describe('the API reference’s client', () => {
    let db: Database
    const seals = sealer(Buffer.alloc(32, 1), randomBytes)
    before(async () => {
      db = await engine.database()
    })
    after(() => db.close())

    const keep = (isEnabled: boolean, baseUrl = 'https://localhost:8443', scopes = builtIn.scopes) =>
      syncDocsClient({ db, sealer: seals, scopes, baseUrl, isEnabled })
    const found = () => findClient(db, docsClientId)

    it('is not registered if users cannot log in from the reference', async () => {
      assert.equal(await keep(false), null)
      assert.equal(await found(), undefined)
    })

    it('is not registered if the base URL’s host is not allowed in a redirect URI', async () => {
      assert.equal(await keep(true, 'https://my_host:8443'), null)
      assert.equal(await found(), undefined)
    })

    it('is public, has every scope and redirects only to /docs; concurrently starting nodes create only one', async () => {
      assert.deepEqual(await Promise.all([keep(true), keep(true)]), ['docs', 'docs'])
      const client = await found()
      assert.deepEqual(
        [client?.secretHash, client?.redirectUris, client?.scopes],
        [null, ['https://localhost:8443/docs'], Object.keys(builtIn.scopes)],
      )
      assert.deepEqual(client?.grants, ['authorization_code', 'refresh_token'])
    })

    it('is unchanged by the next start, and updated if the base URL or the scopes change', async () => {
      assert.equal(await keep(true), 'docs')
      assert.equal((await found())?.revision, 1)
      const { admin: _, ...fewer } = builtIn.scopes
      assert.equal(await keep(true, 'https://localhost:9443', fewer), 'docs')
      const client = await found()
      assert.deepEqual(client?.redirectUris, ['https://localhost:9443/docs'])
      assert.ok(!client?.scopes.includes('admin'))
    })

    it('is revoked if users can no longer log in from the reference, and is never registered again', async () => {
      assert.equal(await keep(false), null)
      assert.equal(await found(), undefined)
      assert.equal(await keep(true), null)
    })
  })
})
