import assert from 'node:assert/strict'
import { after, before, describe, it, mock } from 'node:test'
import { sql } from 'kysely'
import { Line, plinth, Type } from '../../../src/plinth.ts'
import type { Database } from '../../../src/storage/database.ts'
import { migrate } from '../../../src/storage/migrate.ts'
import { type TestApp, testApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { judge, noteStatements, type Statement } from '../../support/statements.ts'

const { collection, service } = plinth({ claims: ({ client }) => ({ tenant: client.id }) })
const body = Type.Object({ tenant: Line(1, 40) })
const open = service({ resources: [collection({ path: '/notes', noun: 'note', body, filters: ['tenant'] })] })
const restricted = service({
  resources: [
    collection({
      path: '/notes',
      noun: 'note',
      body,
      filters: ['tenant'],
      access: (caller) => ({ tenant: caller.claims.tenant }),
    }),
  ],
})
const rows = 20_000

forEachEngine((engine) => {
  describe('a list restricted to one tenant', () => {
    let db: Database
    let app: TestApp
    let seen: Map<string, Statement>
    before(async () => {
      seen = noteStatements(mock)
      db = await engine.database()
      // The access rule is added after the table has been created.
      await migrate(db, { tables: open.tables })
      await migrate(db, { tables: restricted.tables })
      app = await testApp(db, { definition: restricted })
      await db.write(async (tx) => {
        const tenant = "case when n % 2 = 0 then 'north' when n % 100 = 1 then 'North' else 'south' end"
        const insert = `insert into resource_notes (tenant, tenant_key, revision, created_at, updated_at)
          with recursive n (n) as (select 1 union all select n + 1 from n where n < ${rows})
          select ${tenant}, lower(${tenant}), 1, '2026', '2026' from n`
        await sql.raw(insert).execute(tx)
        for (const statement of db.engine.statistics.gather) await sql.raw(statement).execute(tx)
      })
    })
    after(async () => {
      mock.restoreAll()
      await app.app.close()
      await db.close()
    })

    it('200 with the rows whose tenant matches case-sensitively, read from an index on every page', async () => {
      seen.clear()
      const tenants = new Set<string>()
      let [next, count]: [string | undefined, number] = ['/v2/notes?limit=100', 0]
      while (next !== undefined && count < 500) {
        const { items, ...links } = (await app.send({ url: next, token: token('notes:read', 'North') })).json()
        for (const { tenant } of items) tenants.add(tenant)
        count += items.length
        next = links.next ?? undefined
      }
      assert.deepEqual([[...tenants], count], [['North'], rows / 100])
      const lists = [...seen.values()].filter(({ text }) => /^\s*select .* from "resource_notes"/is.test(text))
      assert.ok(lists.length > 0)
      for (const statement of lists) assert.equal(await judge(db, statement), undefined, statement.text)
    })
  })
})
