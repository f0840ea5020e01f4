import assert from 'node:assert/strict'
import { hash, randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { operator } from '../../src/audit/chain.ts'
import { isApiKey, newApiKey } from '../../src/oauth/api-keys/api-key-text.ts'
import { createApiKey, findApiKey, revokeApiKey } from '../../src/oauth/api-keys/api-keys.ts'
import { apiKeyReader } from '../../src/oauth/api-keys/lookup.ts'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { assertTagsOfUses } from './last-use.ts'
import { clock, sealer } from './support.ts'

const path = '/api/keys'

describe('the API key format (S-12)', () => {
  it('is plk_ followed by 49 characters, and is invalid if any character is changed', () => {
    const key = newApiKey()
    assert.match(key, /^plk_[\w-]{49}$/)
    assert.ok(isApiKey(key))
    for (let at = 0; at < key.length; at++) {
      const changed = key.slice(0, at) + (key[at] === 'A' ? 'B' : 'A') + key.slice(at + 1)
      assert.ok(!isApiKey(changed), changed)
    }
    assert.notEqual(newApiKey(), key)
  })
})

forEachEngine((engine) => {
  let db: Database
  let service: TestApp
  before(async () => {
    db = await engine.database()
    service = await testApp(db, { prefixes: [''] })
  })
  after(async () => {
    // Ignore errors caused by closing the database.
    const faults = [...service.faults]
    await service.app.close()
    await db.close()
    assert.deepEqual(faults, [])
  })

  const send = (method: string, url: string, payload?: object, headers: Record<string, string> = {}) =>
    service.send({
      ...{ method: method as 'GET', url, scopes: 'admin', headers },
      ...(payload && { payload }),
    })
  const create = async (body: object = {}) => (await send('POST', path, { name: 'Batch', ...body })).json()

  describe('lastUsedAt', () => {
    it('200 with a new ETag after each use of the key; a write accepts every ETag of the current revision', async () => {
      const { id } = await create()
      const useAt = (lastUsedAt: string) =>
        db.write((tx) => tx.updateTable('apiKeys').set({ lastUsedAt }).where('id', '=', id).execute())
      await assertTagsOfUses({ send, url: `/api/keys/${id}`, useAt })
    })
  })

  describe('POST /api/keys', () => {
    it('201 with the key, which appears in no other response and is stored only as a SHA-256 hash', async () => {
      const limits = { rate: '1200/60', quota: 5_000, expiresAt: '2027-01-01T01:00:00+01:00' }
      const response = await send('POST', path, { name: 'Batch', ...limits })
      const { id, key, ...shown } = response.json()
      assert.deepEqual([response.statusCode, response.headers['cache-control']], [201, 'no-store'])
      assert.equal(response.headers.location, `${path}/${id}`)
      assert.deepEqual([shown.rate, shown.quota, shown.lastUsedAt], ['1200/60', 5_000, null])
      assert.equal(shown.expiresAt, '2027-01-01T00:00:00.000Z')
      assert.equal(shown.hint, key.slice(0, 10))
      const rows = [await findApiKey(db, id), await db.read.selectFrom('auditEntries').selectAll().execute()]
      assert.ok(JSON.stringify(rows).includes(hash('sha256', key)))
      assert.ok(!JSON.stringify(rows).includes(key))
      for (const [method, url] of [
        ['GET', path],
        ['GET', `${path}/${id}`],
        ['PATCH', `${path}/${id}`],
      ] as const) {
        const other = await send(method, url, method === 'PATCH' ? { quota: 6_000 } : undefined)
        assert.equal(other.statusCode, 200)
        assert.ok(other.body.includes(shown.hint) && !other.body.includes(key), `${method} ${url}`)
      }
    })

    const wrong: [status: number, fields: string[], body: object][] = [
      [400, ['name'], { name: undefined }],
      [400, ['rate'], { rate: 600 }],
      [400, ['quota'], { quota: 'many' }],
      [422, ['name', 'rate', 'quota'], { name: '', rate: '600', quota: 0 }],
      ...['0/60', '60/0', '600/86401', '600/60s', '-1/60', 'off'].map((rate): (typeof wrong)[0] => [
        422,
        ['rate'],
        { rate },
      ]),
      [422, ['expiresAt'], { expiresAt: '2020-01-01T00:00:00Z' }],
      [422, ['expiresAt'], { expiresAt: 'tomorrow' }],
      [422, ['expiresAt'], { expiresAt: '2099-02-30' }],
      [422, ['expiresAt'], { expiresAt: '2030' }],
      [422, ['expiresAt'], { expiresAt: '2030-02-30T00:00:00Z' }],
    ]
    for (const [status, fields, body] of wrong) {
      it(`${status} with errors in ${fields} for ${JSON.stringify(body)}`, async () => {
        const response = await send('POST', path, { name: 'Batch', ...body })
        assert.equal(response.statusCode, status)
        assert.deepEqual(
          response.json().errors.map(({ field }: { field: string }) => field),
          fields,
        )
      })
    }
  })

  it('/api/keys/{id}: 200 for GET and PATCH, where null resets a limit; 412 for an outdated tag', async () => {
    const { id } = await create({ rate: '10/1' })
    const url = `${path}/${id}`
    assert.equal((await send('GET', url)).headers.etag, '"1"')
    const changed = await send('PATCH', url, { rate: null, quota: 7 }, { 'if-match': '"1"' })
    assert.deepEqual([changed.statusCode, changed.json().rate, changed.json().quota], [200, null, 7])
    assert.equal((await send('PATCH', url, { quota: 8 }, { 'if-match': '"1"' })).statusCode, 412)
    assert.equal((await send('PATCH', url, { quota: -8 })).statusCode, 422)
    assert.ok((await send('GET', path)).json().some((key: { id: string }) => key.id === id))
  })

  it('/api/keys/{id}: 204 and an audit entry for DELETE, then 404', async () => {
    const { id } = await create()
    assert.equal((await send('DELETE', `${path}/${id}`)).statusCode, 204)
    for (const method of ['GET', 'PATCH', 'DELETE']) {
      assert.equal((await send(method, `${path}/${id}`, method === 'PATCH' ? {} : undefined)).statusCode, 404)
    }
    const audited = await db.read.selectFrom('auditEntries').select('event').where('target', '=', id).execute()
    assert.deepEqual(
      audited.map(({ event }) => event),
      ['key.created', 'key.revoked'],
    )
  })

  it('401 for a request with only an API key, because an API key grants no access', async () => {
    const { key } = await create()
    const headers = { 'x-api-key': key }
    assert.equal((await service.send({ url: '/users', scopes: null, headers })).statusCode, 401)
    const bearer = { authorization: `Bearer ${key}` }
    assert.equal((await service.send({ url: '/users', scopes: null, headers: bearer })).statusCode, 401)
  })

  describe('X-API-Key', () => {
    const reader = () => {
      const time = clock()
      const faults: unknown[] = []
      const onError = (error: unknown) => faults.push(error)
      return { ...apiKeyReader({ db, now: time.now, onError }), ...time, faults }
    }
    const store = (now: () => number) => ({ db, sealer, now, random: randomBytes, actor: operator })

    it('identifies the key and its limits, synchronously if cached, and records when the key was last used', async () => {
      const { read, flush, now, pass } = reader()
      const { apiKey, key } = await createApiKey(store(now), { name: 'Reader', rate: '5/1', quota: 9 })
      const identity = { id: apiKey.id, rate: '5/1', quota: 9 }
      assert.deepEqual(await read(key), identity)
      pass(10)
      const again = read(key)
      assert.ok(!(again instanceof Promise))
      assert.deepEqual(again, identity)
      await flush()
      assert.equal((await findApiKey(db, apiKey.id))?.lastUsedAt, new Date(now()).toISOString())
    })

    it('is ignored if the key is unknown, mistyped or expired, or was revoked half a minute ago', async () => {
      const { read, now, pass } = reader()
      assert.equal(read('plk_nonsense'), null)
      assert.equal(await read(newApiKey()), null)
      const expiresAt = new Date(now() + 20_000).toISOString()
      const ending = await createApiKey(store(now), { name: 'Ending', expiresAt })
      const revoked = await createApiKey(store(now), { name: 'Revoked' })
      for (const { key } of [ending, revoked]) assert.ok(await read(key))
      await revokeApiKey(store(now), revoked.apiKey.id)
      pass(20)
      assert.equal(await read(ending.key), null)
      pass(10)
      assert.equal(await read(revoked.key), null)
    })

    it('200 with a valid, invalid or missing key; the service looks up every key that is sent', async () => {
      const lookedUp: string[] = []
      const { read } = reader()
      const { key } = await create({ rate: '1/1' })
      const readApiKey = (text: string) => {
        lookedUp.push(text)
        return read(text)
      }
      const other = await testApp(db, { prefixes: [''], readApiKey })
      const responses = []
      for (const sent of [key, 'plk_wrong', undefined]) {
        const headers = sent ? { 'x-api-key': sent } : {}
        responses.push((await other.send({ url: '/products', headers })).statusCode)
      }
      await other.app.close()
      assert.deepEqual(
        [responses, lookedUp],
        [
          [200, 200, 200],
          [key, 'plk_wrong'],
        ],
      )
    })
  })
})
