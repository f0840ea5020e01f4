import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { action, Line, plinth, Ref, Type } from '../../src/plinth.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const scopes = 'invoices:read invoices:write lines:read lines:write'
const mergePatch = { 'content-type': 'application/merge-patch+json' }
const [rounds, invoiceCount] = [12, 2]

function definitionOf() {
  const { collection, service } = plinth()
  const invoices = collection({
    path: '/invoices',
    noun: 'invoice',
    body: Type.Object({ name: Line(1, 40) }),
    computed: { total: { sum: 'lines.amount', as: Type.Integer() }, size: { count: 'lines' } },
  })
  const lines = collection({
    path: '/lines',
    noun: 'line',
    body: Type.Object({ invoiceId: Ref(invoices, { onDelete: 'cascade' }), amount: Type.Integer() }),
    filters: ['invoiceId'],
  })
  const add = action(lines, 'add', {
    run: async ({ id, amount }, _input, { update }) => void (await update(lines, id, { amount: amount + 1 })),
  })
  const move = action(lines, 'move', {
    on: 'collection',
    input: Type.Object({ id: Type.Integer(), invoiceId: Type.Integer() }),
    output: Type.Object({}),
    run: async ({ id, invoiceId }, { update, asCaller }) => {
      await (id % 2 === 0 ? update : asCaller.update)(lines, id, { invoiceId })
      return {}
    },
  })
  const addAll = action(invoices, 'add-all', {
    run: async ({ id }, _input, { list, update }) => {
      for await (const line of list(lines, { where: { invoiceId: id }, lock: true })) {
        await update(lines, line.id, { amount: line.amount + 1 })
      }
    },
  })
  return service({ resources: [invoices, lines], code: { add, move, addAll } })
}

forEachEngine((engine) => {
  describe('actions and requests that write rows included in a stored sum', () => {
    const app = appOn(engine, { prefixes: [''], definition: definitionOf() })
    const send = async (method: 'GET' | 'POST' | 'PATCH' | 'PUT', url: string, payload?: object) => {
      const headers = method === 'PATCH' ? { headers: mergePatch } : {}
      const response = await app.send({ method, url, scopes, ...(payload && { payload }), ...headers })
      return { status: response.statusCode, body: response.json() }
    }

    it(`200 for all concurrent writes in ${rounds} rounds, without a deadlock; the sums are correct`, async () => {
      const invoiceIds: number[] = []
      for (let n = 0; n < invoiceCount; n++) invoiceIds.push((await send('POST', '/invoices', { name: 'I' })).body.id)
      const [one = 0, other = 0] = invoiceIds
      const lineIds: number[] = []
      for (const invoiceId of [one, one, other]) {
        lineIds.push((await send('POST', '/lines', { invoiceId, amount: 1 })).body.id)
      }
      const [first = 0, second = 0, third = 0] = lineIds
      for (let round = 0; round < rounds; round++) {
        const [from, to] = round % 2 === 0 ? [one, other] : [other, one]
        const answers = await Promise.all([
          send('POST', `/lines/${first}/add`),
          send('PATCH', `/lines/${first}`, { amount: round }),
          send('PUT', `/lines/${first}`, { invoiceId: one, amount: round }),
          send('POST', `/invoices/${one}/add-all`),
          // These two requests move lines in opposite directions.
          send('POST', '/lines/move', { id: second, invoiceId: to }),
          send('PUT', `/lines/${third}`, { invoiceId: from, amount: round }),
        ])
        assert.deepEqual(
          answers.map(({ status }) => status),
          answers.map(() => 200),
          JSON.stringify(answers.map(({ body }) => body.detail)),
        )
      }
      for (const id of invoiceIds) {
        const rows = (await send('GET', `/lines?invoiceId=${id}`)).body as { amount: number }[]
        const { total, size } = (await send('GET', `/invoices/${id}`)).body
        assert.deepEqual([total, size], [rows.reduce((sum, { amount }) => sum + amount, 0), rows.length])
      }
    })
  })
})
