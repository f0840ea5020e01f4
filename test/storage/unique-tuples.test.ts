import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { sql } from 'kysely'
import { type TSchema, Type } from 'typebox'
import { Line } from '../../src/http/text-rules.ts'
import { collection } from '../../src/resources/collection.ts'
import { tableOf } from '../../src/resources/table.ts'
import type { Database } from '../../src/storage/database.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { TableMismatch } from '../../src/storage/resource-tables/mismatch.ts'
import { rowsOf } from '../../src/storage/rows/rows.ts'
import { forEachEngine } from '../support/engines.ts'

const fields = { tenant: Line(1, 40), name: Type.Optional(Line(1, 40)), size: Type.Optional(Type.Integer()) }
/** A statement that inserts a row. It sets no case-folded column: only filters, sorts and unique fields have one. */
const plainRow = `insert into resource_notes (tenant, revision, created_at, updated_at) values ('a', 1, '', '')`
const together = { unique: [['tenant', 'name']] }

/** Returns the table of a notes collection; its options are untyped, because the fields vary. */
const notes = (properties: Record<string, TSchema>, more: object = {}) =>
  tableOf(collection({ path: '/notes', noun: 'note', body: Type.Object(properties), ...more } as never).declaration)

forEachEngine((engine) => {
  describe('migrate with unique tuples of fields (T-OPS-03)', () => {
    let db: Database
    beforeEach(async () => {
      db = await engine.database()
    })
    afterEach(() => db.close())

    const migrateTo = (...declared: Parameters<typeof notes>) => migrate(db, { tables: [notes(...declared)] })
    const run = (text: string) => db.write((tx) => sql.raw(text).execute(tx))
    const indexes = async () =>
      (await db.engine.indexesOf('resource_notes').execute(db.read)).rows
        .filter(({ unique, columns }) => unique && columns !== 'id')
        .map(({ columns }) => columns)
    const add = (values: Record<string, unknown>) => {
      const rows = rowsOf(db, { table: 'resource_notes', fields: Object.keys(values), folded: ['tenant', 'name'] })
      return db.write((tx) => rows.insert(tx, values, '2026-03-01T12:00:00.000Z'))
    }
    const mismatchOf = async (...declared: Parameters<typeof notes>): Promise<string> => {
      const before = await indexes()
      const error = await migrateTo(...declared).then(
        () => assert.fail('it was accepted'),
        (caught) => caught,
      )
      assert.ok(error instanceof TableMismatch, String(error))
      assert.deepEqual(await indexes(), before)
      return error.message
    }
    const follow = async (message: string) => {
      const statements = [...message.matchAll(/^ {4}(.*);$/gm)].map(([, text]) => String(text))
      assert.ok(statements.length > 0, message)
      for (const statement of statements) await run(statement)
    }

    it('creates the index with the table; a second run changes nothing', async () => {
      assert.match(String((await migrateTo(fields, together))[1]), /^create unique index "resource_notes__\w{8}" on/)
      assert.deepEqual(await indexes(), ['tenant_key,name_key'])
      assert.deepEqual(await migrateTo(fields, together), [])
      assert.deepEqual(await migrateTo(fields, { unique: [['name', 'tenant']] }), [])
    })

    it('creates the index if the table is empty, or if an optional field of the tuple is new', async () => {
      await migrateTo(fields, { filters: ['tenant', 'name'] })
      await migrateTo(fields, together)
      assert.deepEqual(await indexes(), ['tenant_key,name_key'])
      await add({ tenant: 'a', name: 'n', size: 1 })
      const more = {
        unique: [
          ['tenant', 'name'],
          ['tenant', 'color'],
        ],
      }
      await migrateTo({ ...fields, color: Type.Optional(Type.Integer()) }, more)
      assert.deepEqual((await indexes()).sort(), ['tenant_key,color', 'tenant_key,name_key'])
    })

    it('creates a separate index if the first field of a tuple is also a filter', async () => {
      await migrateTo(fields, together)
      const statements = await migrateTo(fields, { ...together, filters: ['tenant'] })
      assert.deepEqual(statements, [
        'create index "resource_notes_tenant_key" on "resource_notes" ("tenant_key", "id")',
      ])
    })

    it('rejects a new tuple if the table has rows, and shows the statement that creates a case-insensitive index', async () => {
      await migrateTo(fields, { filters: ['tenant', 'name'] })
      await add({ tenant: 'a', name: null })
      await add({ tenant: 'A', name: null })
      const message = await mismatchOf(fields, together)
      assert.match(
        message,
        /^\/notes: the fields tenant and name are declared unique together, but have no unique index in resource_notes\. Create one:\n/,
      )
      await follow(message)
      assert.deepEqual(await migrateTo(fields, together), [])
      await add({ tenant: 'a', name: 'x' })
      await assert.rejects(add({ tenant: 'A', name: 'X' }), (error) => db.engine.isDuplicate(error))
    })

    it('rejects a new tuple if existing rows have duplicate values, and states the number of duplicates', async () => {
      await migrateTo(fields, { filters: ['tenant', 'name'] })
      for (const name of ['x', 'X', 'y', null, null]) await add({ tenant: 'a', name })
      assert.match(
        await mismatchOf(fields, together),
        /but 2 rows of resource_notes share their values with others\. Change those values, then create the index:\n/,
      )
    })

    it('rejects a new tuple of fields without case-folded columns, but accepts it after the suggested steps', async () => {
      await migrateTo(fields)
      await run(plainRow)
      const message = await mismatchOf(fields, together)
      assert.match(
        message,
        /tenant and name are declared unique together, .*\. Declare them as filters first, then as unique\.$/,
      )
      await migrateTo(fields, { filters: ['tenant', 'name'] })
      await follow(await mismatchOf(fields, together))
      await migrateTo(fields, together)
    })

    it('rejects a new tuple with a sort field, and shows how to replace the empty strings of missing values with null', async () => {
      await migrateTo(fields, { filters: ['tenant'], sorts: ['name'] })
      await add({ tenant: 'a', name: null })
      await add({ tenant: 'a', name: null })
      await run("update resource_notes set name_key = ''")
      await follow(await mismatchOf(fields, together))
      await migrateTo(fields, together)
    })

    it('rejects the removal of a tuple, and shows the statement that drops its index', async () => {
      await migrateTo(fields, together)
      const message = await mismatchOf(fields, { filters: ['tenant', 'name'] })
      assert.match(message, /the fields tenant and name are not declared unique together, but have a unique index/)
      await follow(message)
      await migrateTo(fields, { filters: ['tenant', 'name'] })
      assert.deepEqual(await indexes(), [])
    })

    it('rejects removing a tuple’s field or changing its type, and shows how to drop the tuple’s index', async () => {
      const sized = { unique: [['tenant', 'size']] }
      const { size, ...others } = fields
      await migrateTo(fields, sized)
      await run(plainRow)
      await follow(await mismatchOf({ ...fields, size: Type.Optional(Line(1, 9)) }, sized))
      await migrateTo({ ...fields, size: Type.Optional(Line(1, 9)) }, sized)
      assert.deepEqual(await indexes(), ['tenant_key,size_key'])
      await run('alter table resource_notes drop column size_old')
      await follow(await mismatchOf(others, { filters: ['tenant'] }))
      await migrateTo(others, { filters: ['tenant'] })
      assert.deepEqual([await indexes(), size.type], [[], 'integer'])
    })

    it('rejects a new default that would create duplicate tuples', async () => {
      await migrateTo(fields, together)
      for (const size of [1, 2]) await add({ tenant: 'a', name: null, size })
      const named = { ...fields, name: Type.Optional(Type.String({ maxLength: 40, default: 'x' })) }
      assert.match(
        await mismatchOf(named, together),
        /^\/notes: the field name cannot get a default: several rows of resource_notes would have its default/,
      )
    })
  })
})
