import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { Decimal, plinth, Ref, report, Title, Type } from '../../../src/plinth.ts'
import { appOn, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { attempt, reportFile } from '../../support/report-files.ts'

const { collection, service: define } = plinth({
  claims: ({ client }) => ({ tenant: /^crm_(\w+)$/.exec(client.id)?.[1] }),
})
const customers = collection({
  path: '/customers',
  noun: 'customer',
  body: Type.Object({ tenant: Title }),
  access: (caller) => {
    if (caller.id === 'client:broken') throw new Error('no such client')
    return caller.is('admin') || { tenant: caller.claims.tenant }
  },
})
const orders = collection({
  path: '/orders',
  noun: 'order',
  body: Type.Object({ customerId: Ref(customers), amount: Decimal(12, 2) }),
  access: { of: 'customer' },
})
const ofAmount = Type.Object({ least: Decimal(12, 2, { default: '0' }) })
const definition = define({
  resources: [customers, orders],
  reports: [
    report(customers, { name: 'tenants', group: { tenant: 'tenant', by: 'createdBy' }, show: { rows: 'count' } }),
    report(orders, {
      ...{ name: 'turnover', parameters: ofAmount },
      where: ({ least }) => ({ amount: { from: least } }),
      show: { total: { sum: 'amount' }, rows: 'count' },
    }),
    report(orders, { name: 'own-orders', where: () => ({ createdBy: 'client:crm_north' }) }),
  ],
})
const scopes = 'customers:read customers:write orders:read orders:write reports:read reports:write'
const as = (client: string, more = '') => token(scopes + more, client)

forEachEngine((engine) => {
  describe('a typed report of a resource with access rules', () => {
    const service = appOn(engine, { prefixes: [''], definition })
    const at = { service, definition, scopes }
    before(async () => {
      for (const tenant of ['north', 'south']) {
        const create = async (url: string, payload: object) => {
          const response = await service.send({ method: 'POST', url, payload, token: as(`crm_${tenant}`) })
          assert.equal(response.statusCode, 201, response.body)
          return response.json().id
        }
        const customerId = await create('/customers', { tenant })
        for (const amount of tenant === 'north' ? ['1.10', '2.20'] : ['40.00']) {
          await create('/orders', { customerId, amount })
        }
      }
    })
    const json = async (name: string, bearer: string, parameters: object = {}) =>
      JSON.parse(String(await reportFile(at, name, parameters, { token: bearer })))
    const request = (reportType: string, bearer: string, format: string) =>
      service.send({
        ...{ method: 'POST', url: '/api/reports', token: bearer },
        payload: { reportType, format, parameters: {} },
      })

    it('groups only the rows that the requester may read', async () => {
      assert.deepEqual(await json('tenants', as('crm_north')), [{ tenant: 'north', by: 'client:crm_north', rows: 1 }])
      assert.deepEqual(await json('tenants', as('crm_south')), [{ tenant: 'south', by: 'client:crm_south', rows: 1 }])
    })

    it('sums only the rows that a rule on a related row lets the requester read', async () => {
      assert.deepEqual(await json('turnover', as('crm_north')), [{ total: '3.30', rows: 2 }])
      assert.deepEqual(await json('turnover', as('crm_north'), { least: '2' }), [{ total: '2.20', rows: 1 }])
      assert.deepEqual(await json('turnover', as('crm_south')), [{ total: '40.00', rows: 1 }])
    })

    it('has no groups, or a sum of zero, for callers without a tenant, even with the admin scope', async () => {
      for (const bearer of [as('nobody'), as('boss', ' admin')]) {
        assert.deepEqual(await json('tenants', bearer), [])
        assert.deepEqual(await json('turnover', bearer), [{ total: '0.00', rows: 0 }])
      }
    })

    it('applies the access rules in addition to its condition, which may use createdBy', async () => {
      assert.equal((await json('own-orders', as('crm_north'))).length, 2)
      assert.deepEqual(await json('own-orders', as('crm_south')), [])
    })

    it('200 for the download of a PDF with one row for each group that the requester may read', async () => {
      const bearer = as('crm_north')
      const requested = await request('tenants', bearer, 'pdf')
      assert.equal(requested.statusCode, 202)
      const { taskId } = requested.json()
      const { task } = await attempt(at, taskId, { token: bearer })
      assert.deepEqual([task.status, task.rowCount], ['completed', 1])
      const file = await service.send({ url: `/api/reports/${taskId}/download`, token: bearer })
      assert.deepEqual([file.statusCode, file.headers['content-type']], [200, 'application/pdf'])
      assert.match(file.rawPayload.toString('latin1'), /^%PDF-/)
    })

    it('404 if another caller downloads it, even with the admin scope', async () => {
      const { taskId } = (await request('turnover', as('crm_north'), 'csv')).json()
      await attempt(at, taskId, { token: as('crm_north') })
      for (const bearer of [as('crm_south'), as('boss', ' admin')]) {
        const response = await service.send({ url: `/api/reports/${taskId}/download`, token: bearer })
        assert.equal(response.statusCode, 404)
      }
    })

    it('does not complete if a rule throws', async () => {
      const { taskId } = (await request('tenants', as('broken'), 'csv')).json()
      await assert.rejects(attempt(at, taskId, { token: as('broken') }), /The access rules of \/customers failed/)
      const task = (await service.send({ url: `/api/reports/${taskId}`, token: as('broken') })).json()
      assert.notEqual(task.status, 'completed')
    })
  })
})
