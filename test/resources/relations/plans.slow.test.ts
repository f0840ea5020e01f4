import assert from 'node:assert/strict'
import { after, before, describe, it, mock } from 'node:test'
import { sql } from 'kysely'
import type { Database } from '../../../src/storage/database.ts'
import { migrate } from '../../../src/storage/migrate.ts'
import { type TestApp, testApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { judge, noteStatements, type Statement } from '../../support/statements.ts'
import { definition, scopes } from './service.ts'

const rows = 20_000

forEachEngine((engine) => {
  describe('the statements of relations', () => {
    let db: Database
    let service: TestApp
    let seen: Map<string, Statement>
    before(async () => {
      seen = noteStatements(mock)
      db = await engine.database()
      await migrate(db, { tables: definition.tables })
      service = await testApp(db, { prefixes: [''], definition })
    })
    after(async () => {
      mock.restoreAll()
      await service.app.close()
      await db.close()
    })
    const fill = (table: string, columns: string, values: string) =>
      db.write((tx) =>
        sql
          .raw(`insert into ${table} (${columns}, revision, created_at, updated_at)
            with recursive n (n) as (select 1 union all select n + 1 from n where n < ${rows})
            select ${values}, 1, '2026', '2026' from n`)
          .execute(tx),
      )

    it('read a bounded number of rows', async () => {
      await fill('resource_customers', 'name, name_key', "'C', 'c'")
      // One customer has half of all invoices.
      const customer = 'case when n % 2 = 0 then 1 else n end'
      await fill('resource_invoices', 'reference, reference_key, customer_id, payer_id', `'R', 'r', ${customer}, n`)
      await fill('resource_line_items', 'invoice_id, text, amount', "n, 'T', n")
      await fill('resource_remarks', 'line_id, text', "n, 'T'")
      seen.clear()
      const calls = async (id: number) => {
        const requests: [method: 'GET' | 'DELETE' | 'PUT' | 'POST', url: string, status: number, payload?: object][] = [
          ['GET', '/invoices?expand=customer,payer,lineItems.remarks&limit=200', 200],
          ['GET', `/invoices/${id}?expand=customer,lineItems`, 200],
          ['GET', `/invoices/${id}/line-items`, 200],
          ['GET', '/remarks?expand=line.invoice.customer', 200],
          ['POST', '/invoices', 201, { reference: 'N', customerId: id }],
          ['PUT', `/invoices/${id}`, 200, { reference: 'N', customerId: id + 1, payerId: id }],
          ['DELETE', `/invoices/${id}`, 204],
          ['DELETE', '/customers/1', 409],
          ['DELETE', `/customers/${id + 1}`, id % 2 === 0 ? 409 : 204],
        ]
        for (const [method, url, status, payload] of requests) {
          const answer = await service.send({ method, url, scopes, ...(payload && { payload }) })
          assert.equal(answer.statusCode, status, `${method} ${url} ${answer.body}`)
        }
        const related = [...seen.values()].filter(({ text }) => /^\s*(select|update|delete).*resource_/is.test(text))
        assert.ok(related.length > 10)
        const wrong: string[] = []
        for (const statement of related) {
          const problem = await judge(db, statement)
          if (problem !== undefined) wrong.push(`${statement.text}\n    ${problem}`)
        }
        assert.deepEqual(wrong, [])
      }
      // PostgreSQL soon gathers statistics for a table of this size, so its plans without them are not tested.
      if (engine.name === 'sqlite') await calls(500)
      await db.write(async (tx) => {
        for (const statement of db.engine.statistics.gather) await sql.raw(statement).execute(tx)
      })
      await calls(801)
      assert.deepEqual(service.faults, [])
    })
  })
})
