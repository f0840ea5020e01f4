import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import { sealer } from '../oauth/support.ts'
import { appOn, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { ending, lifecyclesOf } from '../support/version-lifecycles.ts'

forEachEngine((engine) => {
  describe('GET /api/versions/{version}/retirement', () => {
    const service = appOn(engine, { lifecycles: lifecyclesOf(ending), sealer })
    const plan = (version: string, scopes = 'admin') =>
      service.send({ url: `/api/versions/${version}/retirement`, scopes })

    it('200 with the callers, webhooks and results that the retirement would affect, and the setting that retires the version', async () => {
      const client = { id: 'billing', name: 'Billing', scopes: ['webhooks:write'], grants: ['client_credentials'] }
      await createClient(service.db, sealer, builtIn.scopes, client)
      const at = new Date(service.clock.now).toISOString()
      const calls = [
        { version: 'v1', clientId: 'billing', calls: 7, lastCallAt: at },
        { version: 'v1', clientId: '', calls: 2, lastCallAt: '2026-01-01T00:00:00.000Z' },
        { version: 'v2', clientId: 'billing', calls: 1, lastCallAt: at },
      ]
      await service.db.write((tx) => tx.insertInto('versionCalls').values(calls).execute())
      const register = async (version: string) => {
        const payload = { event: 'report.completed', callbackUrl: `http://127.0.0.1:9/${version}`, version }
        const bearer = token('webhooks:write reports:read', 'billing', '42')
        const answer = await service.send({ method: 'POST', url: '/v2/api/webhooks', payload, token: bearer })
        assert.equal(answer.statusCode, 201, answer.body)
        return answer.json().id
      }
      const id = await register('v1')
      await register('v2')
      for (const url of ['/api/reports', '/v1/api/reports', '/v2/api/reports']) {
        await service.send({ method: 'POST', url, payload: { reportType: 'products', format: 'csv' } })
      }
      const expiresAt = new Date(service.clock.now + 1_000).toISOString()
      await service.db.write((tx) => tx.updateTable('tasks').set({ status: 'completed', expiresAt }).execute())
      const answer = await plan('v1')
      assert.deepEqual([answer.statusCode, answer.headers['cache-control']], [200, 'private, no-cache'])
      const setting = {
        v0: { status: 'retired', successor: 'v2' },
        v1: {
          ...{ status: 'retired', deprecatedAt: '2026-12-01T00:00:00.000Z', sunsetAt: '2027-12-01T00:00:00.000Z' },
          successor: 'v2',
        },
      }
      assert.deepEqual(answer.json(), {
        ...{ version: 'v1', status: 'deprecated', successor: 'v2', unprefixed: true },
        ...{ setting: JSON.stringify(setting), countedSince: '2026-12-01T00:00:00.000Z' },
        clients: [
          { clientId: 'billing', calls: 7, lastCallAt: at, name: 'Billing' },
          { clientId: null, calls: 2, lastCallAt: '2026-01-01T00:00:00.000Z' },
        ],
        webhooks: [
          {
            ...{ id, event: 'report.completed', status: 'active' },
            ...{ ownerClient: 'billing', ownerSubject: '42', ownerName: 'Billing' },
          },
        ],
        results: 2,
      })
      lifecyclesOf(JSON.stringify(setting))
      service.clock.now += 1_000
      assert.equal((await plan('v1')).json().results, 0)
    })

    it('200 without callers for an active version, and without a successor if no other is active', async () => {
      const { status, clients, countedSince, successor, setting, unprefixed } = (await plan('v2')).json()
      assert.deepEqual([status, clients, countedSince, unprefixed], ['active', [], undefined, false])
      assert.deepEqual([successor, setting], [undefined, undefined])
    })

    it('404 with the known versions, 403 without the admin scope, 401 without a token', async () => {
      const answer = await plan('v9')
      assert.equal(answer.statusCode, 404)
      assert.match(answer.json().detail, /use one of v0, v1, v2/)
      assert.equal((await plan('v1', 'audit:read')).statusCode, 403)
      assert.equal((await service.send({ url: '/api/versions/v1/retirement', scopes: null })).statusCode, 401)
    })
  })
})
