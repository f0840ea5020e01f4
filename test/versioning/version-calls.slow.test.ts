import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Database } from '../../src/storage/database.ts'
import { expireVersionCalls, readVersionCalls, versionCallCounter } from '../../src/versioning/call-counts.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { ending, lifecyclesOf } from '../support/version-lifecycles.ts'

const start = Date.parse('2026-12-05T08:00:00.000Z')
const dayMs = 86_400_000

forEachEngine((engine) => {
  describe('calls to a deprecated version', () => {
    let db: Database
    let service: TestApp
    let now = start
    let errors: unknown[] = []
    const counterOn = (database: Database) =>
      versionCallCounter({ db: database, now: () => now, onError: (error) => errors.push(error) })
    let counter: ReturnType<typeof versionCallCounter>
    before(async () => {
      db = await engine.database()
      counter = counterOn(db)
      service = await testApp(db, { lifecycles: lifecyclesOf(ending), countDeprecated: counter.count })
    })
    after(async () => {
      await counter.close()
      await service.app.close()
      await db.close()
      assert.deepEqual(service.faults, [])
    })
    const call = (url: string, sent: Parameters<TestApp['send']>[0] = {}) => service.send({ url, ...sent })
    const versions = async (url = '/api/versions') => {
      await counter.flush()
      return (await call(url, { scopes: 'admin' })).json()
    }

    it('are counted by client, regardless of the status; anonymous calls are counted together', async () => {
      await call('/v1/products', { token: tokenOf('alpha') })
      await call('/users/99', { token: tokenOf('alpha') })
      await call('/v1/nothing', { token: tokenOf('alpha'), method: 'DELETE' })
      now += 1_000
      await call('/products', { token: tokenOf('beta') })
      now += 1_000
      await call('/v1/users', { scopes: null })
      await call('/v1/users', { token: 'expired' })
      const v1 = (await versions('/v2/api/versions')).items[1]
      const at = (ms: number) => new Date(start + ms).toISOString()
      assert.deepEqual(v1, {
        ...{ version: 'v1', status: 'deprecated', successor: 'v2' },
        ...{ deprecatedAt: '2026-12-01T00:00:00.000Z', sunsetAt: '2027-12-01T00:00:00.000Z' },
        clients: [
          { clientId: null, calls: 2, lastCallAt: at(2_000) },
          { clientId: 'beta', calls: 1, lastCallAt: at(1_000) },
          { clientId: 'alpha', calls: 3, lastCallAt: at(0) },
        ],
      })
    })

    it('are counted, unlike calls to other versions or to paths outside any version', async () => {
      const before = await versions('/v2/api/versions')
      for (const url of ['/v0/products', '/v2/products', '/v3/products', '/livez', '/openapi.json']) {
        await call(url, { token: tokenOf('gamma') })
      }
      assert.deepEqual(await versions('/v2/api/versions'), before)
      assert.deepEqual(
        before.items.map(({ version, clients }: { version: string; clients: object[] }) => [version, clients.length]),
        [
          ['v0', 0],
          ['v1', 3],
          ['v2', 0],
        ],
      )
    })

    it('are returned by GET /api/versions, as an array in v1; 403 without the admin scope', async () => {
      const [v0] = await versions()
      assert.deepEqual(v0, { version: 'v0', status: 'retired', successor: 'v1', clients: [] })
      assert.equal((await call('/api/versions')).statusCode, 403)
      assert.deepEqual(await versions('/api/versions?fields=version'), [
        { version: 'v0' },
        { version: 'v1' },
        { version: 'v2' },
      ])
    })

    it('are summed over all nodes, with the time of the latest call', async () => {
      const other = counterOn(db)
      now = start + dayMs
      counter.count('v1', 'a node')
      now = start + 2 * dayMs
      other.count('v1', 'a node')
      other.count('v1', 'a node')
      await other.close()
      await counter.flush()
      const found = (await readVersionCalls(db, ['v1', 'v2'])).find(({ clientId }) => clientId === 'a node')
      assert.deepEqual(found, {
        ...{ version: 'v1', clientId: 'a node', calls: 3 },
        lastCallAt: new Date(start + 2 * dayMs).toISOString(),
      })
    })

    it('are kept in memory while the database is down, and stored afterward', async () => {
      errors = []
      let isDown = true
      const write: Database['write'] = (unit) => (isDown ? Promise.reject(new Error('down')) : db.write(unit))
      const waiting = counterOn({ ...db, write })
      waiting.count('v1', 'patient')
      await waiting.flush()
      assert.equal(errors.length, 1)
      waiting.count('v1', 'patient')
      isDown = false
      await waiting.close()
      const found = (await readVersionCalls(db, ['v1', 'v2'])).find(({ clientId }) => clientId === 'patient')
      assert.equal(found?.calls, 2)
    })

    it('are listed for each version, even if another version has had many recent callers', async () => {
      const callers = counterOn(db)
      now = start
      callers.count('v9', 'early')
      now = start + dayMs
      for (let client = 0; client <= 1_000; client++) callers.count('v8', `client ${client}`)
      await callers.close()
      const listed = await readVersionCalls(db, ['v8', 'v9'])
      assert.equal(listed.filter(({ version }) => version === 'v8').length, 1_000)
      assert.deepEqual(listed.at(-1)?.clientId, 'early')
    })

    it('are deleted 401 days, but not 399 days, after the client’s last call', async () => {
      const late = start + 401 * dayMs
      now = late
      counter.count('v1', 'beta')
      await counter.flush()
      await expireVersionCalls(db, () => late)
      const left = await readVersionCalls(db, ['v1', 'v2'])
      assert.deepEqual(left.map(({ clientId, calls }) => [clientId, calls]).sort(), [
        ['a node', 3],
        ['beta', 2],
        ['patient', 2],
      ])
    })
  })
})

const tokenOf = (clientId: string) =>
  Buffer.from(`${clientId}|${clientId}|users:read products:read`).toString('base64url')
