import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { sql } from 'kysely'
import { type TSchema, Type } from 'typebox'
import { service } from '../../src/definition/service.ts'
import { collection } from '../../src/resources/collection.ts'
import { Title } from '../../src/resources/field-types.ts'
import { Ref } from '../../src/resources/relations/ref.ts'
import type { Database } from '../../src/storage/database.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { TableMismatch } from '../../src/storage/resource-tables/mismatch.ts'
import { forEachEngine } from '../support/engines.ts'

const customers = collection({ path: '/customers', noun: 'customer', body: Type.Object({ name: Title }) })
const companies = collection({ path: '/companies', noun: 'company', body: Type.Object({ name: Title }) })
/** Returns the tables of a service with invoices that have a title and the given field. */
const tablesWith = (field: Record<string, TSchema>, more: object = {}) => {
  const body = Type.Object({ title: Title, ...field })
  const invoices = collection({ path: '/invoices', noun: 'invoice', body, search: ['title'], ...more })
  return service({ resources: [customers, companies, invoices] }).tables
}

forEachEngine((engine) => {
  describe('foreign keys of declared resources (T-OPS-03)', () => {
    let db: Database
    beforeEach(async () => {
      db = await engine.database()
    })
    afterEach(() => db.close())

    const migrateTo = (...declared: Parameters<typeof tablesWith>) => migrate(db, { tables: tablesWith(...declared) })
    const run = (text: string) => db.write((tx) => sql.raw(text).execute(tx))
    const bookkeeping = `1, '2026', '2026'`
    const addCustomer = () =>
      run(`insert into resource_customers (name, revision, created_at, updated_at) values ('C', ${bookkeeping})`)
    const addInvoice = (customerId: number | null) =>
      run(`insert into resource_invoices (title, customer_id, revision, created_at, updated_at)
        values ('T', ${customerId}, ${bookkeeping})`)
    const values = async () => {
      const query = sql.raw<Record<string, number>>('select * from resource_invoices order by id')
      return (await db.write((tx) => query.execute(tx))).rows.map((row) => row.customerId ?? row.customer_id ?? null)
    }
    const foreignKeys = async () =>
      (await db.write((tx) => db.engine.foreignKeysOf('resource_invoices').execute(tx))).rows.map(
        ({ column, table }) => `${column} ${table}`,
      )
    const indexed = async () =>
      (await db.write((tx) => db.engine.indexesOf('resource_invoices').execute(tx))).rows.flatMap(({ columns }) =>
        columns.split(',').slice(0, 1),
      )
    const enforced = async () => {
      assert.deepEqual(
        [await foreignKeys(), (await indexed()).includes('customer_id')],
        [['customer_id resource_customers'], true],
      )
      await assert.rejects(addInvoice(99), /foreign key/i)
    }
    const optional = { customerId: Type.Optional(Ref(customers)) }
    const plain = { customerId: Type.Optional(Type.Integer()) }

    it('are created with a new table, and with a new optional field; a second start changes nothing', async () => {
      await migrateTo({ customerId: Ref(customers) })
      await enforced()
      await run('drop table resource_invoices')
      await run(`delete from resource_tables where name = 'resource_invoices'`)
      await migrateTo({})
      await run(`insert into resource_invoices (title, revision, created_at, updated_at) values ('T', ${bookkeeping})`)
      const [added] = await migrateTo(optional)
      assert.match(
        String(added),
        /add column "customer_id" bigint constraint .* references "resource_customers" \("id"\)/,
      )
      await enforced()
      assert.deepEqual(await migrateTo(optional), [])
    })

    it('are added to an existing column if all its values refer to existing rows; no row changes', async () => {
      await migrateTo(plain)
      await addCustomer()
      for (const id of [1, null, 1]) await addInvoice(id)
      const plan = await migrate(db, { tables: tablesWith(optional), plan: true })
      assert.deepEqual(await foreignKeys(), [])
      assert.deepEqual(await migrateTo(optional), plan)
      assert.deepEqual(await values(), [1, null, 1])
      await enforced()
      await assert.rejects(run('delete from resource_customers'), /foreign key/i)
    })

    it('are rejected if references dangle; the error states how many, with a query that finds the rows', async () => {
      await migrateTo(plain)
      await addCustomer()
      for (const id of [1, 7, null, 8]) await addInvoice(id)
      const error = await migrateTo(optional).then(
        () => assert.fail('it was accepted'),
        (caught) => caught,
      )
      assert.ok(error instanceof TableMismatch, String(error))
      assert.match(
        error.message,
        /^\/invoices: the field customerId refers to rows of resource_customers that do not exist, in 2 rows of resource_invoices\./,
      )
      const [, statement = ''] = /^ {4}(select .*);$/m.exec(error.message) ?? []
      assert.equal((await run(statement)).rows.length, 2)
      assert.deepEqual(await values(), [1, 7, null, 8])
      await run('update resource_invoices set customer_id = null where customer_id > 1')
      await migrateTo(optional)
      await enforced()
    })

    it('follow the field to a different collection, and are dropped when it is no longer a reference', async () => {
      await migrateTo(optional)
      await addInvoice(null)
      await migrateTo({ customerId: Type.Optional(Ref(companies)) })
      assert.deepEqual(await foreignKeys(), ['customer_id resource_companies'])
      await migrateTo(plain)
      assert.deepEqual(await foreignKeys(), [])
      await addInvoice(99)
      assert.deepEqual(await values(), [null, 99])
    })

    it('are added to and dropped from a column of a unique tuple without affecting its index', async () => {
      const together = { unique: [['title', 'customerId']] }
      const tuples = async () =>
        (await db.write((tx) => db.engine.indexesOf('resource_invoices').execute(tx))).rows
          .filter(({ unique, columns }) => unique && columns.includes(','))
          .map(({ columns }) => columns)
      await migrateTo(plain, together)
      await addCustomer()
      for (const id of [1, null]) await addInvoice(id)
      for (const field of [optional, plain, optional]) {
        await migrateTo(field, together)
        assert.deepEqual(await tuples(), ['title_key,customer_id'])
        assert.deepEqual(await migrateTo(field, together), [])
      }
      assert.deepEqual(await values(), [1, null])
      await enforced()
      const error = await migrateTo({}).then(
        () => assert.fail('it was accepted'),
        (caught) => caught,
      )
      for (const [, statement = ''] of error.message.matchAll(/^ {4}(.*);$/gm)) await run(statement)
      await migrateTo({})
      assert.deepEqual([await foreignKeys(), await tuples()], [[], []])
    })

    it('are dropped by the statements in the error message once the field is no longer declared', async () => {
      await migrateTo(optional)
      await addCustomer()
      await addInvoice(1)
      const error = await migrateTo({}).then(
        () => assert.fail('it was accepted'),
        (caught) => caught,
      )
      for (const [, statement = ''] of error.message.matchAll(/^ {4}(.*);$/gm)) await run(statement)
      await migrateTo({})
      assert.deepEqual(await foreignKeys(), [])
      await run('delete from resource_customers')
      const { rows } = await db.write((tx) => sql.raw('select * from resource_invoices').execute(tx))
      assert.match(JSON.stringify(rows), /"customer_?[iI]d_?[oO]ld":1/)
    })
  })
})
