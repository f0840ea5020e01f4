import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { decodeJwt } from 'jose'
import { verifyAudit } from '../../src/audit/verify.ts'
import { clientSecretContext } from '../../src/oauth/clients/clients.ts'
import type { Database } from '../../src/storage/database.ts'
import { token as bearer, type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { assertTagsOfUses } from './last-use.ts'
import { sealer, served } from './support.ts'

const machine = { name: 'Partner', scopes: ['reports:read'], grants: ['client_credentials'] }
const web = {
  name: 'Web',
  scopes: ['openid', 'users:read'],
  grants: ['authorization_code', 'refresh_token'],
  redirectUris: ['https://app.example/cb'],
}

forEachEngine((engine) => {
  let db: Database
  let service: TestApp
  let server: Awaited<ReturnType<typeof served>>
  before(async () => {
    db = await engine.database()
    service = await testApp(db, { sealer })
    server = await served(db)
  })
  after(async () => {
    // Ignore errors caused by closing the database.
    const faults = [...service.faults]
    await service.app.close()
    await server.close()
    await db.close()
    assert.deepEqual(faults, [])
  })

  const send = (method: string, url: string, payload?: unknown, headers: Record<string, string> = {}) =>
    service.send({
      method: method as 'GET',
      url,
      scopes: 'admin',
      headers: { ...(payload !== undefined && { 'content-type': 'application/json' }), ...headers },
      ...(payload !== undefined && { payload: JSON.stringify(payload) }),
    })
  const create = async (body: object = machine) => (await send('POST', '/api/clients', body)).json()
  const entries = (target: string) =>
    db.read.selectFrom('auditEntries').selectAll().where('target', '=', target).orderBy('sequence').execute()
  const token = (id: string, secret: string) => server.token({ client_id: id, client_secret: secret })

  describe('POST /api/clients', () => {
    it('201 with Location, ETag and a working secret, which is stored only as a keyed digest', async () => {
      const response = await send('POST', '/v1/api/clients', machine)
      const { id, secret, createdAt, updatedAt, ...rest } = response.json()
      assert.equal(response.statusCode, 201)
      assert.equal(response.headers.location, `/v1/api/clients/${id}`)
      assert.equal(response.headers.etag, '"1"')
      assert.equal(response.headers['cache-control'], 'no-store')
      assert.equal(createdAt, updatedAt)
      assert.deepEqual(rest, {
        type: 'confidential',
        ...machine,
        redirectUris: [],
        postLogoutRedirectUris: [],
        firstParty: false,
        trusted: false,
        introspectsOthers: false,
        labels: {},
        ...{ rate: null, quota: null, lastUsedAt: null },
        responseTypes: [],
      })
      assert.equal((await token(id, secret)).status, 200)
      const row = await db.read.selectFrom('clients').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
      assert.equal(row.secretHash, sealer.digest(secret, clientSecretContext(id)))
      assert.ok(!JSON.stringify([row, await entries(id)]).includes(secret))
      assert.equal((await token(id, `${secret}x`)).status, 401)
    })

    it('201 for a public client, without a secret', async () => {
      const body = { ...web, type: 'public', redirectUris: ['com.example.app:/cb', 'http://127.0.0.1/cb'] }
      const { secret, type, responseTypes } = await create(body)
      assert.deepEqual([secret, type, responseTypes], [undefined, 'public', ['code']])
    })

    it('409 DUPLICATE_RESOURCE for an id in use, even by a revoked client', async () => {
      const { id } = await create({ ...machine, id: 'only-once' })
      await send('DELETE', `/api/clients/${id}`)
      const response = await send('POST', '/api/clients', { ...machine, id })
      assert.deepEqual([response.statusCode, response.json().errorCode], [409, 'DUPLICATE_RESOURCE'])
      assert.equal(response.json().errors[0].field, 'id')
    })

    const wrong: [status: number, code: string, fields: string[], change: object][] = [
      [400, 'MISSING_REQUIRED_FIELD', ['grants'], { grants: undefined }],
      [400, 'INVALID_INPUT', ['scopes'], { scopes: 'reports:read' }],
      [400, 'MISSING_REQUIRED_FIELD', ['scopes'], { scopes: undefined }],
      [422, 'VALIDATION_ERROR', ['scopes'], { scopes: [] }],
      [422, 'VALIDATION_ERROR', ['scopes'], { scopes: ['*'] }],
      [400, 'INVALID_INPUT', ['trusted'], { trusted: 'yes' }],
      [400, 'INVALID_INPUT', ['introspectsOthers'], { introspectsOthers: 'yes' }],
      [422, 'VALIDATION_ERROR', ['introspectsOthers'], { ...web, type: 'public', introspectsOthers: true }],
      [422, 'VALIDATION_ERROR', ['type'], { type: 'secret' }],
      [400, 'INVALID_INPUT', ['labels'], { labels: ['north'] }],
      [400, 'INVALID_INPUT', ['labels.tenant'], { labels: { tenant: 7 } }],
      ...[
        ...['', 'n'.repeat(201), 'a\nb'].map((tenant) => ({ tenant })),
        ...['', 'Tenant', '1st', 'te nant', 'a'.repeat(41)].map((key) => ({ [key]: 'north' })),
        Object.fromEntries(Array.from({ length: 21 }, (_, at) => [`l${at}`, 'x'])),
      ].map((labels): (typeof wrong)[0] => [422, 'VALIDATION_ERROR', ['labels'], { labels }]),
      ...['7', '007', '.', '..', ''].map((id): (typeof wrong)[0] => [422, 'VALIDATION_ERROR', ['id'], { id }]),
      [422, 'VALIDATION_ERROR', ['name', 'scopes', 'grants'], { name: ' ', scopes: ['x:y'], grants: ['magic'] }],
      [422, 'VALIDATION_ERROR', ['grants'], { type: 'public' }],
      [422, 'VALIDATION_ERROR', ['grants'], { grants: ['password'] }],
      [422, 'VALIDATION_ERROR', ['redirectUris'], { grants: ['authorization_code'] }],
      ...[
        'http://app.example/',
        'https://app.example/#x',
        'https://*.example/',
        'https://u:p@app.example/',
        'javascript:alert(1)',
        'com.example.app:/cb',
        'https://a;sandbox/cb',
        'https://app.example/\0',
        `https://app.example/${'x'.repeat(2_048)}`,
      ].map((uri): (typeof wrong)[0] => [422, 'VALIDATION_ERROR', ['redirectUris'], { ...web, redirectUris: [uri] }]),
    ]
    for (const [status, code, fields, change] of wrong) {
      it(`${status} ${code} with errors in ${fields} for ${JSON.stringify(change).slice(0, 90)}`, async () => {
        const response = await send('POST', '/api/clients', { ...machine, ...change })
        assert.deepEqual([response.statusCode, response.json().errorCode], [status, code])
        const named = response.json().errors.map(({ field }: { field: string }) => field)
        assert.deepEqual([...new Set(named)], fields)
      })
    }
  })

  describe('GET /api/clients', () => {
    it('200 with pages of clients, newest first, without secrets and without revoked clients', async () => {
      const created: string[] = []
      for (let n = 0; n < 5; n++) {
        service.clock.now += 1
        created.unshift((await create({ ...machine, name: `Page ${n}` })).id)
      }
      await send('DELETE', `/api/clients/${created[2]}`)
      const expected = created.filter((_, at) => at !== 2)
      const seen: string[] = []
      for (let url: string | undefined = '/api/clients?limit=2'; url && seen.length < 4; ) {
        const response = await send('GET', url)
        assert.equal(response.statusCode, 200)
        assert.ok(!/secret/i.test(response.body))
        seen.push(...response.json().map(({ id }: { id: string }) => id))
        url = /<([^>]+)>; rel="next"/.exec(String(response.headers.link))?.[1]
      }
      assert.deepEqual(seen, expected)
    })

    it('400 for a cursor from a different list', async () => {
      const link = String((await send('GET', '/api/audit?limit=1')).headers.link)
      const cursor = /cursor=([\w-]+)>; rel="next"/.exec(link)?.[1]
      assert.equal((await send('GET', `/api/clients?cursor=${cursor}`)).statusCode, 400)
    })
  })

  describe('GET /api/clients/{id}', () => {
    it('200 with an ETag and only the requested fields; 304 if unchanged', async () => {
      const { id } = await create()
      const url = `/api/clients/${id}`
      const response = await send('GET', url)
      assert.deepEqual([response.statusCode, response.headers.etag], [200, '"1"'])
      assert.equal(response.headers['cache-control'], 'private, no-cache')
      assert.equal((await send('GET', url, undefined, { 'if-none-match': '"1"' })).statusCode, 304)
      assert.deepEqual((await send('GET', `${url}?fields=name`)).json(), { name: 'Partner' })
    })

    it('404 for an unknown id, identical to the response for a revoked client', async () => {
      const { id } = await create()
      await send('DELETE', `/api/clients/${id}`)
      const [gone, never] = [await send('GET', `/api/clients/${id}`), await send('GET', '/api/clients/nobody')]
      assert.deepEqual([gone.statusCode, never.statusCode], [404, 404])
      assert.equal(gone.json().detail, never.json().detail)
    })
  })

  describe('lastUsedAt', () => {
    it('200 with a new ETag after each use of the client; a write accepts every ETag of the current revision', async () => {
      const { id } = await create()
      const useAt = (lastUsedAt: string) =>
        db.write((tx) => tx.updateTable('clients').set({ lastUsedAt }).where('id', '=', id).execute())
      await assertTagsOfUses({ send, url: `/api/clients/${id}`, useAt })
    })
  })

  describe('PATCH /api/clients/{id}', () => {
    it('200 with the changes and a new ETag; new tokens reflect the changes', async () => {
      const { id, secret } = await create()
      const response = await send('PATCH', `/api/clients/${id}`, { scopes: ['books:write'], name: 'New' })
      assert.deepEqual([response.statusCode, response.headers.etag], [200, '"2"'])
      assert.deepEqual([response.json().name, response.json().scopes], ['New', ['books:write']])
      assert.equal(decodeJwt((await token(id, secret)).body.access_token).scope, 'books:write')
    })

    it('200 for null, which resets a field to its default, and for read-only fields, which are ignored', async () => {
      const { id } = await create(web)
      const patch = { postLogoutRedirectUris: null, firstParty: null, id: 'other', type: 'public', createdAt: 'x' }
      const response = await send('PATCH', `/api/clients/${id}`, patch)
      assert.deepEqual([response.statusCode, response.json().id, response.json().type], [200, id, 'confidential'])
    })

    it('200 for setting and resetting introspectsOthers, with audit entries; 422 for a public client', async () => {
      const { id } = await create({ ...machine, introspectsOthers: true })
      assert.equal((await send('GET', `/api/clients/${id}`)).json().introspectsOthers, true)
      for (const [value, shown] of [
        [false, false],
        [true, true],
        [null, false],
      ]) {
        const response = await send('PATCH', `/api/clients/${id}`, { introspectsOthers: value })
        assert.deepEqual([response.statusCode, response.json().introspectsOthers], [200, shown])
      }
      const audited = (await entries(id)).map(({ details }) => JSON.parse(details as string).introspectsOthers)
      assert.deepEqual(audited, [true, false, true, false])
      const open = await create({ ...web, type: 'public' })
      assert.equal((await send('PATCH', `/api/clients/${open.id}`, { introspectsOthers: true })).statusCode, 422)
    })

    it('200 for setting, merging and removing labels, with audit entries; 422 for a label beyond the 20th', async () => {
      const { id, labels } = await create({ ...machine, labels: { tenant: 'north', region: 'eu' } })
      assert.deepEqual(labels, { tenant: 'north', region: 'eu' })
      assert.deepEqual((await send('GET', `/api/clients/${id}?fields=labels`)).json(), { labels })
      for (const [change, shown] of [
        [{ tenant: 'south', region: null }, { tenant: 'south' }],
        [{ level: '1' }, { tenant: 'south', level: '1' }],
        [{}, { tenant: 'south', level: '1' }],
        [null, {}],
      ]) {
        const response = await send('PATCH', `/api/clients/${id}`, { labels: change })
        assert.deepEqual([response.statusCode, response.json().labels], [200, shown])
      }
      const audited = (await entries(id)).map(({ details }) => JSON.parse(details as string).labels)
      assert.deepEqual(audited, [
        ['tenant=north', 'region=eu'],
        ['tenant=south'],
        ...[1, 2].map(() => ['tenant=south', 'level=1']),
        [],
      ])
      const twenty = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`l${at}`, 'x']))
      assert.equal((await send('PATCH', `/api/clients/${id}`, { labels: twenty })).statusCode, 200)
      assert.equal((await send('PATCH', `/api/clients/${id}`, { labels: { more: 'x' } })).statusCode, 422)
    })

    it('403 for a client that sets its own labels without the admin scope', async () => {
      const { id } = await create()
      const payload = { labels: { tenant: 'north' } }
      const own = { scopes: 'users:write', token: bearer('users:write', id) }
      const response = await service.send({ method: 'PATCH', url: `/api/clients/${id}`, payload, ...own })
      assert.deepEqual([response.statusCode, response.json().errorCode], [403, 'ACCESS_DENIED'])
      assert.deepEqual((await send('GET', `/api/clients/${id}`)).json().labels, {})
    })

    it('412 if the tag is outdated; nothing changes', async () => {
      const { id } = await create()
      const response = await send('PATCH', `/api/clients/${id}`, { name: 'New' }, { 'if-match': '"9"' })
      assert.deepEqual([response.statusCode, response.json().errorCode], [412, 'PRECONDITION_FAILED'])
      assert.equal((await send('GET', `/api/clients/${id}`)).json().name, 'Partner')
    })

    it('200 for exactly one of 20 concurrent requests with the same tag (T-RACE)', async () => {
      const { id } = await create()
      const patch = (n: number) => send('PATCH', `/api/clients/${id}`, { name: `Racer ${n}` }, { 'if-match': '"1"' })
      const responses = await Promise.all(Array.from({ length: 20 }, (_, n) => patch(n)))
      assert.equal(responses.filter(({ statusCode }) => statusCode === 200).length, 1)
      assert.equal(responses.filter(({ statusCode }) => statusCode === 412).length, 19)
    })

    it('422 if the result would be invalid; 400 for null where a value is required', async () => {
      const { id } = await create(web)
      assert.equal((await send('PATCH', `/api/clients/${id}`, { redirectUris: null })).statusCode, 422)
      assert.equal((await send('PATCH', `/api/clients/${id}`, { name: null })).statusCode, 400)
    })
  })

  describe('POST /api/clients/{id}/rotate-secret', () => {
    it('200 with a new secret, never cached; the old secret stops working at once', async () => {
      const { id, secret } = await create()
      for (const [presented, status] of [
        [secret, 200],
        [secret, 200],
        [`${secret.slice(1)}x`, 401],
        ['', 401],
      ] as const) {
        assert.equal((await token(id, presented)).status, status)
      }
      const response = await send('POST', `/api/clients/${id}/rotate-secret`)
      assert.deepEqual([response.statusCode, response.headers['cache-control']], [200, 'no-store'])
      assert.notEqual(response.json().secret, secret)
      assert.equal((await token(id, response.json().secret)).status, 200)
      assert.equal((await token(id, secret)).status, 401)
    })

    it('422 for a public client, 404 for an unknown client', async () => {
      const { id } = await create({ ...web, type: 'public' })
      assert.equal((await send('POST', `/api/clients/${id}/rotate-secret`)).statusCode, 422)
      assert.equal((await send('POST', '/api/clients/nobody/rotate-secret')).statusCode, 404)
    })
  })

  describe('DELETE /api/clients/{id}', () => {
    it('412 for an outdated tag; otherwise 204, then 404, and the secret no longer works', async () => {
      const { id, secret } = await create()
      assert.equal((await token(id, secret)).status, 200)
      assert.equal((await send('DELETE', `/api/clients/${id}`, undefined, { 'if-match': '"7"' })).statusCode, 412)
      assert.equal((await send('DELETE', `/api/clients/${id}`)).statusCode, 204)
      assert.equal((await send('DELETE', `/api/clients/${id}`)).statusCode, 404)
      assert.equal((await token(id, secret)).status, 401)
    })
  })

  it('a POST repeated with the same Idempotency-Key creates one client, one audit entry and one secret', async () => {
    const once = (url: string, body?: object) => send('POST', url, body, { 'idempotency-key': `key of ${url}` })
    const [first, again] = [await once('/api/clients', machine), await once('/api/clients', machine)]
    assert.deepEqual([again.headers['idempotent-replayed'], again.json()], ['true', first.json()])
    const { id, secret } = first.json()
    const url = `/api/clients/${id}/rotate-secret`
    const [rotated, replayed] = [await once(url), await once(url)]
    assert.notEqual(rotated.json().secret, secret)
    assert.equal(replayed.json().secret, rotated.json().secret)
    assert.deepEqual(
      (await entries(id)).map(({ event }) => event),
      ['client.created', 'client.secret_rotated'],
    )
  })

  it('the audit log records every change to a client with its actor, and stays intact', async () => {
    const { id } = await create()
    await send('PATCH', `/api/clients/${id}`, { name: 'New' })
    await send('PATCH', `/api/clients/${id}`, { name: 'Newer' }, { 'if-match': '"1"' })
    await send('POST', `/api/clients/${id}/rotate-secret`)
    await send('DELETE', `/api/clients/${id}`)
    const found = await entries(id)
    assert.deepEqual(
      found.map(({ event, clientId, subject }) => [event, clientId, subject]),
      ['created', 'updated', 'secret_rotated', 'revoked'].map((what) => [`client.${what}`, 'cli_test', 'cli_test']),
    )
    for (const { requestId, address } of found) assert.deepEqual([requestId !== null, address], [true, '127.0.0.1'])
    const verdict = await verifyAudit(db, sealer)
    assert.ok(verdict.whole, JSON.stringify(verdict))
  })

  it('428 for deleting a client without If-Match if the service requires If-Match', async () => {
    const strict = await testApp(db, { sealer, requireIfMatch: true })
    const { id } = await create()
    const [method, url, scopes] = ['DELETE', `/api/clients/${id}`, 'admin'] as const
    assert.equal((await strict.send({ method, url, scopes })).statusCode, 428)
    assert.equal((await strict.send({ method, url, scopes, headers: { 'if-match': '"1"' } })).statusCode, 204)
    await strict.app.close()
  })
})
