import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { theService } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { consoleClient, docsClient, syncBuiltInClient } from '../../src/oauth/clients/built-in-clients.ts'
import { createClient, findClient } from '../../src/oauth/clients/clients.ts'
import { revokeClient, updateClient } from '../../src/oauth/clients/update.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer } from '../../src/storage/encryption.ts'
import { forEachEngine } from '../support/engines.ts'

forEachEngine((engine) => {
  describe('the built-in client of /docs', () => {
    let db: Database
    const seals = sealer(Buffer.alloc(32, 1), randomBytes)
    before(async () => {
      db = await engine.database()
    })
    after(() => db.close())

    const keep = (isEnabled: boolean, baseUrl = 'https://localhost:8443', scopes = builtIn.scopes) =>
      syncBuiltInClient(docsClient, { db, sealer: seals, scopes, baseUrl, isEnabled, onTaken: assert.fail })
    const found = () => findClient(db, docsClient.id)

    it('is not registered if users cannot log in from the API reference', async () => {
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

    it('does not change on a restart, unless the base URL or the scopes have changed', async () => {
      assert.equal(await keep(true), 'docs')
      assert.equal((await found())?.revision, 1)
      const { admin: _, ...fewer } = builtIn.scopes
      assert.equal(await keep(true, 'https://localhost:9443', fewer), 'docs')
      const client = await found()
      assert.deepEqual(client?.redirectUris, ['https://localhost:9443/docs'])
      assert.ok(!client?.scopes.includes('admin'))
    })

    it('keeps only the openid scope while users cannot log in from the page, and regains the others afterwards', async () => {
      assert.equal(await keep(false), null)
      assert.deepEqual((await found())?.scopes, ['openid'])
      assert.equal(await keep(true), docsClient.id)
      assert.deepEqual((await found())?.scopes, Object.keys(builtIn.scopes))
    })

    it('is not registered again after an administrator revokes it', async () => {
      await revokeClient({ db, sealer: seals, actor: theService }, docsClient.id)
      assert.equal(await keep(true), null)
      assert.equal(await found(), undefined)
    })
  })

  describe('an application’s client that has the id of a built-in client', () => {
    const seals = sealer(Buffer.alloc(32, 1), randomBytes)
    const baseUrl = 'https://localhost:8443'
    const application = {
      id: 'console',
      name: 'Games',
      scopes: ['users:read'],
      redirectUris: ['https://games.example/in'],
    }
    const kinds = {
      confidential: { ...application, grants: ['authorization_code'], redirectUris: [`${baseUrl}/console/signed-in`] },
      public: { ...application, grants: ['authorization_code'], secret: null },
      'without redirect URIs': { ...application, grants: ['client_credentials'], redirectUris: [] },
    }
    for (const [kind, client] of Object.entries(kinds)) {
      it(`stays unchanged, and is reported if the page is enabled (${kind})`, async () => {
        const db = await engine.database()
        await createClient(db, seals, builtIn.scopes, client)
        const before = await findClient(db, 'console')
        const taken: string[] = []
        const start = (isEnabled: boolean) =>
          syncBuiltInClient(consoleClient, {
            ...{ db, sealer: seals, scopes: builtIn.scopes, baseUrl, isEnabled },
            onTaken: (id) => taken.push(id),
          })
        assert.equal(await start(false), null)
        assert.deepEqual(taken, [])
        assert.equal(await start(true), null)
        assert.deepEqual(taken, ['console'])
        assert.deepEqual(await findClient(db, 'console'), before)

        if (kind === 'public') {
          const redirectUris = [`${baseUrl}/console/signed-in`]
          await updateClient({ db, sealer: seals, actor: theService }, builtIn.scopes, 'console', { redirectUris })
        } else {
          await db.write((tx) => tx.deleteFrom('clients').where('id', '=', 'console').execute())
        }
        assert.equal(await start(true), 'console')
        assert.deepEqual([(await findClient(db, 'console'))?.name, taken], ['Console', ['console']])
        await db.close()
      })
    }
  })
})
