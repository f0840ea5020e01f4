import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { operator } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import { updateClient } from '../../src/oauth/clients/update.ts'
import { tokenVerifier } from '../../src/oauth/tokens/verify.ts'
import { quotaUses } from '../../src/rate-limits/stores/quotas.ts'
import type { Database } from '../../src/storage/database.ts'
import { keys, signed, start } from '../oauth/forgery.ts'
import { issuer, sealer } from '../oauth/support.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

forEachEngine((engine) => {
  describe('the limits of a client', () => {
    let db: Database
    let service: TestApp
    let admin: string
    let now = start
    before(async () => {
      db = await engine.database()
      const revocations = { count: 0 }
      const verify = tokenVerifier({ issuer, audience: issuer, db, now: () => now, keys, revocations })
      const rules = { general: { calls: 50, seconds: 60 }, quotas: { requests: 1_000, reports: 10 } }
      service = await testApp(db, {
        prefixes: [''],
        verify,
        revocations,
        baseUrl: issuer,
        now: () => now,
        sealer,
        rules,
      })
      admin = await tokenOf('operator', 'admin')
    })
    after(async () => {
      await service.app.close()
      await db.close()
      assert.deepEqual(service.faults, [])
    })

    const tokenOf = async (id: string, scope = 'reports:read', subject = id) => {
      const grants = ['client_credentials']
      const known = await db.read.selectFrom('clients').select('id').where('id', '=', id).executeTakeFirst()
      if (!known) await createClient(db, sealer, builtIn.scopes, { id, name: id, scopes: [scope], grants })
      return signed({ sub: subject, client_id: id, scope, jti: `${id} ${subject} ${scope}` })
    }
    const patch = async (id: string, payload: object) => {
      const headers = { 'content-type': 'application/merge-patch+json' }
      return service.send({ method: 'PATCH', url: `/api/clients/${id}`, token: admin, headers, payload })
    }
    /** Sends a request; returns the rate limit and the request quota from the response headers. */
    const limitsOf = async (token: string) => {
      const { headers } = await service.send({ url: '/products', token })
      return [headers['x-ratelimit-limit'], headers['x-quota-limit']].map(Number)
    }

    it('default to the service’s limits', async () => {
      assert.deepEqual(await limitsOf(await tokenOf('plain')), [50, 1_000])
    })

    it('apply to the next request after a change; null restores the service’s limits', async () => {
      const token = await tokenOf('changed')
      assert.deepEqual(await limitsOf(token), [50, 1_000])
      const changed = await patch('changed', { rate: '2/60', quota: 5 })
      assert.deepEqual([changed.statusCode, changed.json().rate, changed.json().quota], [200, '2/60', 5])
      assert.deepEqual(await limitsOf(token), [2, 5])
      assert.equal((await service.send({ url: '/products', token })).statusCode, 200)
      assert.equal((await service.send({ url: '/products', token })).statusCode, 429)
      await patch('changed', { rate: null, quota: null })
      assert.deepEqual(await limitsOf(token), [50, 1_000])
    })

    it('can be set when the client is created', async () => {
      await createClient(db, sealer, builtIn.scopes, {
        ...{ id: 'app', name: 'App', scopes: ['reports:read'], grants: ['client_credentials'], rate: '3/60' },
      })
      assert.deepEqual(await limitsOf(await tokenOf('app')), [3, 1_000])
    })

    it('apply within 30 seconds after a change by another process', async () => {
      const token = await tokenOf('elsewhere')
      assert.deepEqual(await limitsOf(token), [50, 1_000])
      await updateClient({ db, sealer, actor: operator }, builtIn.scopes, 'elsewhere', { rate: '7/60' })
      assert.deepEqual(await limitsOf(token), [50, 1_000])
      now += 30_000
      assert.deepEqual(await limitsOf(token), [7, 1_000])
    })

    it('are recorded in the audit log when they change', async () => {
      const row = await db.read
        .selectFrom('auditEntries')
        .select('details')
        .where('target', '=', 'changed')
        .where('event', '=', 'client.updated')
        .orderBy('sequence')
        .executeTakeFirstOrThrow()
      const { rate, quota } = JSON.parse(row.details as string)
      assert.deepEqual([rate, quota], ['2/60', 5])
    })

    it('422 for an invalid rate or quota; 400 for a rate that is not a string', async () => {
      for (const rate of ['600', '0/60', '60/86401', 'off']) {
        const response = await patch('plain', { rate })
        assert.equal(response.statusCode, 422, rate)
        assert.match(response.json().errors[0].message, /must be calls\/seconds, such as 600\/60/)
      }
      for (const quota of [0, 1_000_000_001]) assert.equal((await patch('plain', { quota })).statusCode, 422)
      assert.equal((await patch('plain', { rate: 60 })).statusCode, 400)
    })
  })

  describe('GET /api/clients/{id}/usage and GET /api/keys/{id}/usage', () => {
    const now = start
    const reset = Date.UTC(2026, 11) / 1_000
    let db: Database
    let service: TestApp
    let client: string
    let key: string
    before(async () => {
      db = await engine.database()
      const rules = { general: { calls: 50, seconds: 60 }, quotas: { requests: 1_000, reports: 10 } }
      service = await testApp(db, { prefixes: [''], now: () => now, rules })
      const machine = { name: 'Partner', scopes: ['reports:read'], grants: ['client_credentials'] }
      client = (await post('/api/clients', machine)).id
      key = (await post('/api/keys', { name: 'Batch', rate: '9/10', quota: 20 })).id
      const user = (await post('/users', { name: 'Ada', email: 'ada@example.com' }, 'users:write')).id
      const { add } = quotaUses(db)
      const month = '2026-11'
      await add([
        [`client:${client},${client} requests`, month, 40],
        [`client:${client},${client} reports`, month, 3],
        [`client:${client},${user} requests`, month, 1_500],
        [`client:${client},${user} requests`, '2026-10', 77],
        [`client:${client}x,9 requests`, month, 5],
        [`key:${key} requests`, month, 12],
      ])
    })
    after(async () => {
      await service.app.close()
      await db.close()
      assert.deepEqual(service.faults, [])
    })
    const post = async (url: string, payload: object, scopes = 'admin') =>
      (await service.send({ method: 'POST', url, payload, scopes })).json()
    const get = (url: string, scopes = 'admin') => service.send({ url, scopes })
    const quota = (name: string, limit: number, used: number) => ({ name, limit, used, remaining: limit - used, reset })

    it('200 with the accounts of the client, busiest first, and the names of users', async () => {
      const { rate, accounts } = (await get(`/api/clients/${client}/usage`)).json()
      assert.equal(rate, '50/60')
      assert.deepEqual(
        accounts.map(({ subject: _, ...account }: { subject: string }) => account),
        [
          { userName: 'Ada', quotas: [quota('requests', 1_000, 1_000), quota('reports', 10, 0)] },
          { quotas: [quota('requests', 1_000, 40), quota('reports', 10, 3)] },
        ],
      )
      assert.equal(accounts[1].subject, client)
    })

    it('200 with the rate and the quota of the client itself', async () => {
      const headers = { 'content-type': 'application/merge-patch+json' }
      const change = { method: 'PATCH', url: `/api/clients/${client}`, headers, scopes: 'admin' } as const
      await service.send({ ...change, payload: { rate: '600/60', quota: 2_000 } })
      const { rate, accounts } = (await get(`/api/clients/${client}/usage`)).json()
      assert.equal(rate, '600/60')
      assert.deepEqual(accounts[0].quotas[0], quota('requests', 2_000, 1_500))
    })

    it('200 with the rate and the quotas of an API key', async () => {
      const { rate, quotas } = (await get(`/api/keys/${key}/usage`)).json()
      assert.equal(rate, '9/10')
      assert.deepEqual(quotas, [quota('requests', 20, 12), quota('reports', 10, 0)])
    })

    it('200 with all quotas of the 100 accounts with the most requests, however many others there are', async () => {
      const busy = (
        await post('/api/clients', { name: 'Busy', scopes: ['reports:read'], grants: ['client_credentials'] })
      ).id
      const account = (at: number) => `client:${busy},${1_000 + at}`
      const uses = Array.from({ length: 300 }, (_, at): [string, string, number][] => [
        [`${account(at)} requests`, '2026-11', 500 - at],
        [`${account(at)} reports`, '2026-11', 1],
      ])
      await quotaUses(db).add(uses.flat())
      const { accounts } = (await get(`/api/clients/${busy}/usage`)).json()
      assert.equal(accounts.length, 100)
      for (const [at, { subject, quotas }] of accounts.entries()) {
        assert.equal(subject, String(1_000 + at))
        assert.deepEqual(quotas, [quota('requests', 1_000, 500 - at), quota('reports', 10, 1)])
      }
    })

    it('200 with the accounts that requested the most reports, if requests have no quota', async () => {
      const rules = { general: null, quotas: { requests: null, reports: 10 } }
      const unlimited = await testApp(db, { prefixes: [''], now: () => now, rules })
      await quotaUses(db).add([[`client:${client},500 reports`, '2026-11', 7]])
      await service.send({
        ...{ method: 'PATCH', url: `/api/clients/${client}`, scopes: 'admin', payload: { quota: null } },
        headers: { 'content-type': 'application/merge-patch+json' },
      })
      const usage = await unlimited.send({ url: `/api/clients/${client}/usage`, scopes: 'admin' })
      assert.deepEqual(
        usage.json().accounts.map((account: { quotas: object[] }) => account.quotas),
        [[quota('reports', 10, 7)], [quota('reports', 10, 3)]],
      )
      await unlimited.app.close()
    })

    it('200 without quotas if the service has no limits', async () => {
      const open = await testApp(db, { prefixes: [''], now: () => now })
      const usage = await open.send({ url: `/api/clients/${client}/usage`, scopes: 'admin' })
      assert.deepEqual([usage.json().rate, usage.json().accounts[0].quotas], [null, []])
      await open.app.close()
    })

    it('404 for an unknown client or key, and for a revoked key', async () => {
      const gone = (await post('/api/keys', { name: 'Old' })).id
      await service.send({ method: 'DELETE', url: `/api/keys/${gone}`, scopes: 'admin' })
      for (const url of ['/api/clients/unknown/usage', '/api/keys/unknown/usage', `/api/keys/${gone}/usage`]) {
        assert.equal((await get(url)).statusCode, 404, url)
      }
    })

    it('403 without the admin scope', async () => {
      assert.equal((await get(`/api/clients/${client}/usage`, 'reports:read')).statusCode, 403)
      assert.equal((await get(`/api/keys/${key}/usage`, 'reports:read')).statusCode, 403)
    })
  })
})
