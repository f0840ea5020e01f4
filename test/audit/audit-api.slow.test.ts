import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { archiveAudit } from '../../src/audit/archive-sweep.ts'
import { openAudit } from '../../src/audit/buffer.ts'
import { appendAudit } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { folderResults } from '../../src/files/folder.ts'
import { redirectServer } from '../../src/http/server/redirect-server.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import type { Database } from '../../src/storage/database.ts'
import { iso } from '../../src/storage/ids.ts'
import { sealer, served } from '../oauth/support.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { later } from '../support/timers.ts'

forEachEngine((engine) => {
  let db: Database
  let service: TestApp
  before(async () => {
    db = await engine.database()
    service = await testApp(db, { sealer })
  })
  after(async () => {
    // Ignore errors caused by closing the database.
    const faults = [...service.faults]
    await service.app.close()
    await db.close()
    assert.deepEqual(faults, [])
  })

  const list = (query = '') => service.send({ url: `/api/audit${query}`, scopes: 'audit:read' })
  const add = (name: string) => service.send({ method: 'POST', url: '/api/keys', payload: { name }, scopes: 'admin' })
  const newest = async (event: string) => (await list(`?event=${event}&limit=1`)).json()[0]

  describe('GET /api/audit/archives', () => {
    const archives = (scopes: string) => service.send({ url: '/api/audit/archives', scopes })

    it('200 with the archived months; if there are any, the last page of the log links to them', async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'plinth-archives-'))
      t.after(() => rmSync(folder, { recursive: true }))
      const linkOf = async (query: string) =>
        /<([^>]+)>; rel="archives"/.exec(String((await list(query)).headers.link))?.[1] ?? null
      await add('Old')
      assert.deepEqual([(await archives('audit:read')).json(), await linkOf('')], [[], null])
      const now = () => service.clock.now + 62 * 86_400_000
      const [{ sequence, hash }] = (await list('?limit=1')).json()
      await archiveAudit({ db, store: folderResults(folder), sealer, months: 1, now, clock: now })()
      await add('New')
      const answer = await archives('audit:read')
      assert.deepEqual([answer.statusCode, answer.headers['cache-control']], [200, 'private, no-cache'])
      const [{ sizeBytes, sha256, archivedAt, key, ...archive }] = answer.json()
      assert.deepEqual(archive, {
        ...{ month: '2026-03', firstSequence: 1, lastSequence: sequence, previousHash: '', lastHash: hash },
      })
      const file = readFileSync(join(folder, key))
      assert.deepEqual([sizeBytes, sha256], [file.length, createHash('sha256').update(file).digest('base64')])
      assert.equal(archivedAt, new Date(now()).toISOString())
      assert.deepEqual([await linkOf('?limit=1'), await linkOf('')], [null, '/api/audit/archives'])
    })

    it('200 with the admin scope, 403 with neither admin nor audit:read, 401 without a token', async () => {
      assert.equal((await archives('admin')).statusCode, 200)
      assert.equal((await archives('products:read')).statusCode, 403)
      assert.equal((await service.send({ url: '/api/audit/archives', scopes: null })).statusCode, 401)
    })
  })

  describe('GET /api/audit', () => {
    it('200 with entries newest first, paginated in both directions, and not cacheable by shared caches', async () => {
      for (let n = 0; n < 5; n++) await add(`Key ${n}`)
      const first = await list('?limit=2')
      assert.equal(first.headers['cache-control'], 'private, no-cache')
      const next = /<([^>]+)>; rel="next"/.exec(String(first.headers.link))?.[1] as string
      await add('While paging')
      const second = await service.send({ url: next, scopes: 'audit:read' })
      const names = (answer: typeof first) =>
        answer.json().map((entry: { details: { name: string } }) => entry.details.name)
      assert.deepEqual(
        [names(first), names(second)],
        [
          ['Key 4', 'Key 3'],
          ['Key 2', 'Key 1'],
        ],
      )
      const prev = /<([^>]+)>; rel="prev"/.exec(String(second.headers.link))?.[1] as string
      assert.deepEqual(names(await service.send({ url: prev, scopes: 'audit:read' })), ['Key 4', 'Key 3'])
    })

    it('200 with the admin scope', async () => {
      assert.equal((await service.send({ url: '/v1/api/audit', scopes: 'admin' })).statusCode, 200)
    })

    it('200 with the client address that the trusted proxy appended to X-Forwarded-For', async () => {
      const headers = { 'x-forwarded-for': '203.0.113.1, 198.51.100.7' }
      const payload = { name: 'From afar' }
      await service.send({ method: 'POST', url: '/api/keys', payload, headers, scopes: 'admin' })
      assert.equal((await newest('key.created')).address, '198.51.100.7')
    })

    it('200 with the entries for an event, client, subject, target or period', async () => {
      service.clock.now += 3_600_000
      const since = new Date(service.clock.now).toISOString()
      const { id } = (await add('Filtered')).json()
      const one = async (query: string) => (await list(query)).json().map(({ target }: { target: string }) => target)
      assert.deepEqual(await one(`?target=${id}`), [id])
      assert.deepEqual(await one(`?event=key.created&clientId=cli_test&subject=cli_test&from=${since}`), [id])
      assert.deepEqual(await one(`?target=${id}&to=${since}`), [])
      assert.deepEqual(await one(`?target=${id}&clientId=cli_other`), [])
      assert.deepEqual((await list(`?target=${id}&fields=event`)).json(), [{ event: 'key.created' }])
    })

    for (const query of ['from=yesterday', 'from=2026-02-30', 'to=2026-01-01T24:00:00Z', 'cursor=x', 'limit=0']) {
      it(`400 for ${query}`, async () => assert.equal((await list(`?${query}`)).statusCode, 400))
    }

    it('400 for a cursor from a list with a different filter', async () => {
      const cursor = /cursor=([\w-]+)/.exec(String((await list('?limit=1')).headers.link))?.[1]
      assert.equal((await list(`?cursor=${cursor}&event=key.created`)).statusCode, 400)
    })

    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'] as const) {
      it(`405 for ${method} on the same path: the log is read-only`, async () => {
        assert.equal((await service.send({ method, url: '/api/audit', scopes: 'admin' })).statusCode, 405)
      })
    }
  })

  describe('GET /api/audit/export', () => {
    const exported = (query = '', scopes = 'audit:read') => service.send({ url: `/api/audit/export${query}`, scopes })
    const linesOf = ({ body }: { body: string }) =>
      body
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line))

    it('200 with all matching entries, oldest first, as NDJSON in the format of the list', async () => {
      await db.write((tx) =>
        appendAudit(
          tx,
          sealer,
          Array.from({ length: 1_001 }, (_, n) => ({
            event: 'key.updated',
            at: iso(service.clock.now),
            target: `key_${n}`,
          })),
        ),
      )
      const answer = await exported('?event=key.updated')
      assert.deepEqual([answer.statusCode, answer.headers['content-type']], [200, 'application/x-ndjson'])
      assert.equal(answer.headers['content-disposition'], 'attachment; filename="audit.ndjson"')
      const lines = linesOf(answer)
      assert.deepEqual(
        lines.map(({ target }) => target),
        Array.from({ length: 1_001 }, (_, n) => `key_${n}`),
      )
      assert.deepEqual(lines.at(-1), await newest('key.updated'))
      const all = linesOf(await exported())
      assert.deepEqual(
        all.map(({ sequence }) => sequence),
        all.map((_, at) => all[0].sequence + at),
      )
    })

    it('200 with the entries of a period; an empty body for a future period', async () => {
      service.clock.now += 3_600_000
      const since = iso(service.clock.now)
      const { id } = (await add('Exported')).json()
      assert.deepEqual(
        linesOf(await exported(`?event=key.created&from=${since}`)).map(({ target }) => target),
        [id],
      )
      const none = await exported('?from=2100-01-01')
      assert.deepEqual([none.statusCode, none.body], [200, ''])
    })

    it('400 for an invalid instant, 403 with neither admin nor audit:read, 401 without a token', async () => {
      assert.equal((await exported('?from=yesterday')).statusCode, 400)
      assert.equal((await exported('', 'admin')).statusCode, 200)
      assert.equal((await exported('', 'products:read')).statusCode, 403)
      assert.equal((await service.send({ url: '/api/audit/export', scopes: null })).statusCode, 401)
    })
  })

  it('the audit log records the creation and deletion of a webhook, with the host of its URL but not the path or query', async () => {
    const payload = { event: '*', callbackUrl: 'http://127.0.0.1:9/hook/s3cret?token=s3cret' }
    const { id } = (await service.send({ method: 'POST', url: '/api/webhooks', payload })).json()
    await service.send({ method: 'DELETE', url: `/api/webhooks/${id}` })
    const entries = (await list(`?target=${id}`)).json()
    assert.deepEqual(
      entries.map(({ event, clientId }: Record<string, string>) => [event, clientId]),
      [
        ['webhook.deleted', 'cli_test'],
        ['webhook.created', 'cli_test'],
      ],
    )
    assert.deepEqual(entries[1].details, { event: '*', host: '127.0.0.1:9' })
  })

  it('the service and the redirect listener report credentials sent over plain HTTP, with the header’s name but not its value', async () => {
    const headers = { 'x-forwarded-proto': 'http', authorization: 'Bearer s3cret' }
    assert.equal((await service.send({ url: '/users', headers })).statusCode, 301)
    await service.audit.flush()
    const { address, details, clientId } = await newest('credential.plaintext')
    assert.deepEqual([address, details, clientId], ['127.0.0.1', { header: 'authorization' }, undefined])

    const reported: unknown[] = []
    const answering = { later, onHealth: () => {} }
    const options = {
      baseUrl: 'https://plinth.test',
      ...answering,
      onPlaintext: (peer: unknown) => reported.push(peer),
    }
    const redirect = redirectServer(options).listen(0, '127.0.0.1')
    await once(redirect, 'listening')
    const { port } = redirect.address() as AddressInfo
    for (const sent of [{ 'x-api-key': 's3cret' }, {}]) {
      const [answer] = await once(request({ port, host: '127.0.0.1', headers: sent }).end(), 'response')
      assert.equal(answer.statusCode, 301)
      answer.resume()
    }
    redirect.close()
    assert.deepEqual(reported, [{ address: '127.0.0.1', header: 'x-api-key' }])
  })

  it('the audit log records each grant, refusal and revocation of a token, but never the token or a secret', async () => {
    const audit = openAudit({ db, sealer, now: Date.now, onError: assert.fail as never })
    const server = await served(db, { audit })
    const machine = { name: 'Machine', scopes: ['reports:read'], grants: ['client_credentials'] }
    const { client, secret } = await createClient(db, sealer, builtIn.scopes, machine)
    const credentials = { client_id: client.id, client_secret: secret as string }
    const { access_token: token } = (await server.token(credentials)).body
    await server.token({ ...credentials, client_secret: 'wrong' })
    await server.token({ ...credentials, scope: 'admin' })
    await server.post('/oauth/revoke', { ...credentials, token })
    await server.close()
    await audit.flush()
    const entries = (await list(`?clientId=${client.id}`)).json()
    assert.deepEqual(entries.map(({ event, details }: Record<string, unknown>) => [event, details]).reverse(), [
      ['token.granted', { grant: 'client_credentials', scope: 'reports:read' }],
      ['token.refused', { error: 'invalid_client' }],
      ['token.refused', { error: 'invalid_scope' }],
      ['token.revoked', { kind: 'ClientCredentials' }],
    ])
    const everything = JSON.stringify(await db.read.selectFrom('auditEntries').selectAll().execute())
    for (const hidden of [secret as string, token.slice(-40), 's3cret', 'wrong']) {
      assert.ok(!everything.includes(hidden), hidden)
    }
  })
})
