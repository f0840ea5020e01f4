import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { reportKinds } from '../../../src/mount-versions.ts'
import { collection, Ref, service, Title, Type } from '../../../src/plinth.ts'
import { readOf, requesterFor, type ServedReport } from '../../../src/reports/report-types.ts'
import { rowAccess } from '../../../src/row-access.ts'
import { openSnapshot } from '../../../src/storage/open.ts'
import { appOn, type TestApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { fanOutAll } from './fan-out.ts'
import { definition, scopes } from './service.ts'

const callers = ['crm_north', 'crm_south', 'auditor']
const merge = { 'content-type': 'application/merge-patch+json' }
const tokenOf = (who: string) => token(scopes, who)

forEachEngine((engine) => {
  describe('access rules that depend on related rows', () => {
    const app = appOn(engine, { definition })
    const webhooks = new Map<string, string>()
    const send = async (who: string, method: 'POST' | 'PATCH' | 'DELETE', url: string, payload?: object) => {
      const headers = method === 'PATCH' ? { headers: merge } : {}
      const response = await app.send({ method, url, token: tokenOf(who), ...(payload && { payload }), ...headers })
      assert.ok(response.statusCode < 300, response.body)
      return method === 'DELETE' ? undefined : response.json()
    }
    before(async () => {
      for (const who of callers) {
        const { id } = await send(who, 'POST', '/api/webhooks', {
          event: '*',
          callbackUrl: `http://127.0.0.1:9/${who}`,
        })
        webhooks.set(id, who)
      }
    })
    /** Returns the receivers of each type of event so far, and removes these events. */
    const received = async () => {
      const deliveries = await fanOutAll(app, definition)
      for (const table of ['deliveries', 'events'] as const) await app.db.write((tx) => tx.deleteFrom(table).execute())
      const byType = Map.groupBy(deliveries, ({ eventType }) => eventType)
      return Object.fromEntries(
        [...byType].map(([type, some]) => [type, some.map(({ webhookId }) => webhooks.get(String(webhookId))).sort()]),
      )
    }
    const invoiceOf = async (tenant: string) => {
      const who = `crm_${tenant}`
      const { id: customerId } = await send(who, 'POST', '/customers', { tenant, name: 'Ada' })
      const { id: invoiceId } = await send(who, 'POST', '/invoices', { customerId, status: 'draft' })
      const { id: lineId } = await send(who, 'POST', '/lines', { invoiceId, text: 'Work' })
      return { customerId, invoiceId, lineId }
    }
    const both = ['auditor', 'crm_north']
    const reportFor = async ({ db, clock }: TestApp & { db: typeof app.db }, who: string, name: string) => {
      const kind = reportKinds(definition).find((one) => one.name === name) as ServedReport
      const caller = { clientId: who, subject: who, scopes: new Set(scopes.split(' ')) }
      const access = rowAccess(definition, { db, now: () => clock.now }).reportAccess
      const snapshot = await openSnapshot(db.url)
      const read = readOf(db, kind, {}, await requesterFor(kind, access, caller))
      const rows = await Array.fromAsync(snapshot.pages(read)).finally(snapshot.close)
      return rows.flat().map(([id]) => Number(id))
    }

    it('send events to the callers who may read the row, even if that depends on rows several steps away', async () => {
      const { lineId } = await invoiceOf('north')
      await send('crm_north', 'POST', '/remarks', { lineId, text: 'Good' })
      assert.deepEqual(await received(), {
        ...{ 'customer.created': both, 'invoice.created': both, 'line.created': both, 'remark.created': both },
      })
    })

    it('send deletion events of a row and its cascade to the callers who could read these rows', async () => {
      const { invoiceId } = await invoiceOf('north')
      await received()
      await send('crm_north', 'DELETE', `/invoices/${invoiceId}`)
      assert.deepEqual(await received(), { 'line.deleted': both, 'invoice.deleted': both })
    })

    it('send events to the callers who could read the row when it changed, despite later changes to related rows', async () => {
      const { customerId, lineId } = await invoiceOf('north')
      await received()
      await send('crm_north', 'PATCH', `/lines/${lineId}`, { text: 'More work' })
      await app.db.write((tx) =>
        tx
          .updateTable('resourceCustomers' as 'products')
          .set({ tenant: 'south' } as never)
          .where('id', '=', customerId)
          .execute(),
      )
      assert.deepEqual(await received(), { 'line.updated': both })
      await send('crm_south', 'PATCH', `/lines/${lineId}`, { text: 'Moved work' })
      assert.deepEqual(await received(), { 'line.updated': ['auditor', 'crm_south'] })
    })

    it('select the same rows for reports as for lists, for each caller', async () => {
      await invoiceOf('south')
      for (const name of ['customers', 'invoices', 'lines', 'remarks', 'memos']) {
        for (const who of [...callers, 'crm_nowhere']) {
          const listed = await app.send({ url: `/${name}?limit=200`, token: tokenOf(who) })
          const ids = listed.json().map(({ id }: { id: number }) => id)
          assert.deepEqual(await reportFor(app, who, name), ids, `${name} ${who}`)
        }
      }
    })
  })

  describe('deletion events in a self-referencing collection', () => {
    const folders = collection({
      path: '/folders',
      noun: 'folder',
      body: Type.Object({ title: Title, parentId: Type.Optional(Ref('self', { onDelete: 'cascade' })) }),
      access: () => ({ any: [{ title: 'root' }, { parent: { title: 'root' } }] }),
    })
    const tree = service({ resources: [folders] })
    const app = appOn(engine, { definition: tree })
    it('reach callers who could read a row only because of a parent deleted in the same cascade', async () => {
      const bearer = token(Object.keys(tree.scopes).join(' '), 'crm_north')
      const post = async (url: string, payload: object) => {
        const response = await app.send({ method: 'POST', url, payload, token: bearer })
        assert.equal(response.statusCode, 201, response.body)
        return response.json()
      }
      await post('/api/webhooks', { event: 'folder.deleted', callbackUrl: 'http://127.0.0.1:9/folders' })
      const { id: parentId } = await post('/folders', { title: 'root' })
      const { id } = await post('/folders', { title: 'leaf', parentId })
      const removed = await app.send({ method: 'DELETE', url: `/folders/${parentId}`, token: bearer })
      assert.equal(removed.statusCode, 204, removed.body)
      const deliveries = await fanOutAll(app, tree)
      assert.deepEqual(deliveries.map(({ body }) => JSON.parse(body).id).sort(), [parentId, id].sort())
    })
  })
})
