import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { sql } from 'kysely'
import { type TObject, Type } from 'typebox'
import { type Definition, service } from '../../src/definition/service.ts'
import { Line } from '../../src/http/text-rules.ts'
import { collection } from '../../src/resources/collection.ts'
import { Decimal } from '../../src/resources/decimal-fields.ts'
import { Ref } from '../../src/resources/relations/ref.ts'
import type { ResourceOptions } from '../../src/resources/resource-options.ts'
import type { Database } from '../../src/storage/database.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { migrateThoroughly, type ThoroughMigration } from '../../src/storage/migrate-thoroughly.ts'
import { readSchemaChanges } from '../../src/storage/resource-tables/history.ts'
import { forEachEngine } from '../support/engines.ts'

const items = <B extends TObject>(body: B, more: Partial<ResourceOptions<B>> = {}) =>
  service({ version: '2.0', resources: [collection({ path: '/items', noun: 'item', body, ...more })] })

const [name, price] = [Line(1, 40), Type.Number()]
const earlier = items(Type.Object({ name, price }), { filters: ['price'] })
const converted = items(Type.Object({ name, price: Decimal(12, 2), slug: Line(1, 60) }), {
  filters: ['price', 'slug'],
  migrate: {
    convert: { price: (old: number) => old.toFixed(2) },
    fill: { slug: (row) => `${String(row.name).toLowerCase()}-${row.id}` },
  },
})

forEachEngine((engine) => {
  const isPostgres = engine.name === 'postgres'
  const key = isPostgres ? ' collate "C"' : ''

  describe('plinth migrate for changes that must process every row', () => {
    let db: Database
    beforeEach(async () => {
      db = await engine.database()
    })
    afterEach(() => db.close())

    let reads = 0
    // Reads on the writing connection, because other connections may still use the old schema.
    const rows = async (table = 'resource_items') =>
      (
        await db.write((tx) =>
          sql.raw<Record<string, unknown>>(`select * from ${table} order by id -- ${++reads}`).execute(tx),
        )
      ).rows
    const add = (...prices: (number | null)[]) =>
      db.write(async (tx) => {
        for (const price of prices) {
          await sql`
            insert into resource_items (name, price, revision, created_at, updated_at)
            values (${`N${price}`}, ${price}, 1, '2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000Z')`.execute(tx)
        }
      })
    let excluded = 0
    const thoroughly = (definition: Definition, more: Partial<ThoroughMigration> = {}) =>
      migrateThoroughly(db, {
        ...{
          tables: definition.tables,
          version: definition.info.version,
          now: () => Date.parse('2026-11-23T00:00:00Z'),
        },
        exclude: async () => {
          excluded++
          return () => {
            excluded--
          }
        },
        ...more,
      })
    const start = (definition: Definition) =>
      migrate(db, { tables: definition.tables, now: () => Date.parse('2026-11-22T00:00:00Z') })

    it('is suggested by the error when the service cannot start without it, and executes exactly what its plan lists', async () => {
      await start(earlier)
      await add(1.5, 2)
      const before = await rows()
      await assert.rejects(start(converted), {
        name: 'TableMismatch',
        message: [
          '/items: the field price has to be converted from number in 2 rows of resource_items. Stop all nodes that use this database, and run plinth migrate',
          '/items: the field slug has to be filled in 2 rows of resource_items. Stop all nodes that use this database, and run plinth migrate',
        ].join('\n'),
      })
      const plan = await thoroughly(converted, { plan: true, exclude: () => assert.fail('nothing is changed') })
      assert.deepEqual(plan, [
        'alter table "resource_items" add column "price__new" bigint',
        '-- convert price of resource_items from number to decimal with scale 2 in 2 rows',
        'drop index if exists "resource_items_price"',
        'alter table "resource_items" rename column "price" to "price_old"',
        'alter table "resource_items" rename column "price__new" to "price"',
        'create index "resource_items_price" on "resource_items" ("price", "id")',
        'alter table "resource_items" add column "slug" text',
        `alter table "resource_items" add column "slug_key" text${key}`,
        '-- fill slug of resource_items in 2 rows',
        'create index "resource_items_slug_key" on "resource_items" ("slug_key", "id")',
      ])
      assert.deepEqual(await rows(), before)
      assert.deepEqual(await thoroughly(converted), plan)
      const after = await rows()
      assert.deepEqual(
        after.map((row) => [
          row.price,
          row.price_old ?? row.priceOld,
          row.slug,
          row.slug_key ?? row.slugKey,
          row.revision,
        ]),
        [
          [150, 1.5, 'n1.5-1', 'n1.5-1', 3],
          [200, 2, 'n2-2', 'n2-2', 3],
        ],
      )
      assert.equal(excluded, 0)
      assert.deepEqual(await start(converted), [])
      assert.deepEqual(await thoroughly(converted, { plan: true }), [])
    })

    it('resumes where an interrupted run stopped, or starts over if the definition has changed', async () => {
      await start(earlier)
      await add(...Array.from({ length: 1_100 }, (_, at) => at))
      const stopAfter = (rows: number) => ({
        onProgress: (progress: { rows: number }) => {
          if (progress.rows >= rows) throw new Error('stopped')
        },
      })
      await assert.rejects(thoroughly(converted, stopAfter(1_000)), /stopped/)
      assert.equal(excluded, 0)
      const unfinished = async () =>
        (await readSchemaChanges(db))
          .filter(({ finishedAt }) => finishedAt === null)
          .map(({ change, rows }) => [change, Number(rows)])
      const change = 'convert price of resource_items from number to decimal with scale 2'
      assert.deepEqual(await unfinished(), [[change, 1_000]])
      const plan = await thoroughly(converted, { plan: true })
      assert.equal(plan[0], `-- ${change} in 100 rows`)
      const seen: number[] = []
      await assert.rejects(
        thoroughly(converted, {
          onProgress: ({ rows, total }) => {
            seen.push(rows)
            if (rows === 1_100) throw new Error('stopped again')
            assert.equal(total, 1_100)
          },
        }),
        /stopped again/,
      )
      assert.deepEqual(seen, [1_000, 1_100])

      // A start with the old definition discards the progress, because the service may then change converted rows.
      await start(earlier)
      assert.deepEqual(await unfinished(), [])
      await db.write((tx) => sql`update resource_items set price = 7.25 where id = 1`.execute(tx))
      await assert.rejects(thoroughly(converted, stopAfter(500)), /stopped/)
      const other = items(Type.Object({ name, price: Decimal(12, 2) }), {
        filters: ['price'],
        migrate: { convert: { price: (old: number) => (old * 2).toFixed(2) } },
      })
      await thoroughly(other)
      const all = await rows()
      assert.deepEqual([all.length, all[0]?.price, all[1]?.price, all[1_099]?.price], [1_100, 1_450, 200, 219_800])
      assert.deepEqual(await start(other), [])
    })

    it('stops at a value that the new schema rejects, names its row, and leaves all values unchanged', async () => {
      await start(earlier)
      await add(1, 1e15, 3)
      const before = await rows()
      await assert.rejects(thoroughly(converted), {
        name: 'TableMismatch',
        message:
          '/items: the new value of price in row 2 of resource_items must have at most 10 digits before the decimal point; price still has its old values. Correct the row or the function in migrate, then run plinth migrate again',
      })
      const after = await rows()
      assert.deepEqual(
        after.map((row) => row.price),
        before.map((row) => row.price),
      )
      await start(earlier)
      const throwing = items(Type.Object({ name, price, code: Line(1, 9) }), {
        migrate: { fill: { code: () => JSON.parse('{') } },
      })
      await assert.rejects(
        thoroughly(throwing),
        /code in row 1 of resource_items has no value: the function threw SyntaxError/,
      )
      const missing = items(Type.Object({ name, price, code: Line(1, 9) }), {
        migrate: { fill: { code: () => undefined as never } },
      })
      await assert.rejects(
        thoroughly(missing),
        /the new value of code in row 1 of resource_items is required\. Correct/,
      )
    })

    it('keeps the unique indexes and tuples of a converted field, and refuses duplicate values', async () => {
      const of = (type: TObject, more: object) =>
        items(type as never, { unique: ['price', ['price', 'name']], ...more } as never)
      await start(of(Type.Object({ name, price: Type.Integer() }), {}))
      await add(10, 21)
      const text = (convert: (old: number) => string) =>
        of(Type.Object({ name, price: Line(1, 9) }), { migrate: { convert: { price: convert } } })
      await assert.rejects(thoroughly(text(() => 'same')), {
        message:
          '/items: the field price cannot be converted: several rows of resource_items would have the same converted value, and unique includes it',
      })
      const done = text((old) => `P${old}`)
      await thoroughly(done)
      assert.deepEqual(await start(done), [])
      const indexes = (await db.engine.indexesOf('resource_items').execute(db.read)).rows.filter((one) => one.unique)
      assert.deepEqual(
        indexes
          .map(({ columns }) => columns)
          .filter((columns) => columns !== 'id')
          .sort(),
        ['price_key', 'price_key,name_key'],
      )
      const again = of(Type.Object({ name, price: Type.Integer() }), {
        migrate: { convert: { price: (old: string) => Number(old.slice(1)) } },
      })
      await assert.rejects(
        thoroughly(again),
        /its old values would be put into the column price_old.* Drop it:\n {4}alter table/,
      )
    })

    it('fills a newly required field in rows without a value, and records the change in the history', async () => {
      const optional = items(Type.Object({ name, price: Type.Optional(price) }))
      await start(optional)
      await add(5, null)
      const required = items(Type.Object({ name, price }), { migrate: { fill: { price: 9 } } })
      await assert.rejects(start(required), /the field price has to be filled in 1 row of resource_items/)
      assert.deepEqual(await thoroughly(required), ['-- fill price of resource_items in 1 row'])
      assert.deepEqual(
        (await rows()).map((row) => [row.price, row.revision]),
        [
          [5, 1],
          [9, 2],
        ],
      )
      const history = await readSchemaChanges(db)
      const last = history.find(({ rows }) => Number(rows) > 0)
      assert.deepEqual(
        [last?.change, Number(last?.rows), last?.version, last?.tableName, last?.finishedAt],
        ['fill price of resource_items', 1, '2.0', 'resource_items', '2026-11-23T00:00:00.000Z'],
      )
      assert.match(String(history[0]?.change), /^create table "resource_items"/)
    })

    it('drops undeclared columns and tables only with --allow-data-loss, and lists them', async () => {
      const tags = collection({
        path: '/tags',
        noun: 'tag',
        body: Type.Object({ name, price }),
        unique: [['name', 'price']],
      })
      const both = service({ resources: [...earlier.collections, tags] })
      await start(both)
      await add(1, 2)
      const without = items(Type.Object({ name }))
      await assert.rejects(thoroughly(without), /remove it with its data with plinth migrate --allow-data-loss/)
      const plan = await thoroughly(without, { plan: true, allowDataLoss: true })
      assert.deepEqual(plan, [
        'drop index if exists "resource_items_price"',
        'alter table "resource_items" drop column "price"',
        '-- remove resource_items.price with its values in 2 rows',
        'drop table if exists "resource_tags"',
        '-- remove resource_tags with 0 rows of name, price',
      ])
      assert.deepEqual(await thoroughly(without, { allowDataLoss: true }), plan)
      assert.ok(!('price' in ((await rows())[0] ?? {})))
      assert.deepEqual(await thoroughly(without, { allowDataLoss: true }), [])
      assert.ok((await db.engine.columnsOf('users').execute(db.read)).rows.length > 0)
    })

    it('with --tidy, renames the columns of renamed fields, and their indexes and foreign keys', async () => {
      const owners = collection({ path: '/owners', noun: 'owner', body: Type.Object({ name }) })
      const ownersOf = (body: TObject, more: object) =>
        service({ resources: [owners, collection({ path: '/items', noun: 'item', body, ...more } as never)] })
      await start(
        ownersOf(Type.Object({ name, ownerId: Ref(owners), price }), {
          ...{ filters: ['name'], search: ['name'], unique: [['name', 'ownerId']] },
        }),
      )
      const body = Type.Object({ title: name, keeperId: Ref(owners), price })
      const lists = { filters: ['title'], search: ['title'], unique: [['title', 'keeperId']] }
      const renamed = ownersOf(body, { ...lists, migrate: { renamed: { title: 'name', keeperId: 'ownerId' } } })
      assert.deepEqual(await start(renamed), [
        '-- rename name to title, which keeps the column name; no row changes',
        '-- rename ownerId to keeperId, which keeps the column owner_id; no row changes',
      ])
      const plain = ownersOf(body, lists)
      assert.deepEqual(await start(plain), [], 'the record keeps the column')
      const taken = ownersOf(Type.Object({ title: name, keeperId: Ref(owners), price, name }), lists)
      await assert.rejects(start(taken), /the field name needs the column name, in which title is stored\. /)
      const done = await thoroughly(plain, { tidy: true })
      assert.ok(done.includes('alter table "resource_items" rename column "name_key" to "title_key"'), done.join('\n'))
      assert.deepEqual(await thoroughly(plain, { tidy: true }), [])
      for (const definition of [plain, renamed]) assert.deepEqual(await start(definition), [])
      const columns = (await db.engine.columnsOf('resource_items').execute(db.read)).rows.map((column) => column.name)
      assert.deepEqual(columns.slice(5), ['title', 'title_key', 'keeper_id', 'price'])
      const indexes = (await db.engine.indexesOf('resource_items').execute(db.read)).rows.map((index) => index.columns)
      assert.deepEqual(indexes.filter((index) => /title|keeper/.test(index)).sort(), [
        'keeper_id,id',
        'title_key,id',
        'title_key,keeper_id',
      ])
      assert.deepEqual((await db.engine.foreignKeysOf('resource_items').execute(db.read)).rows, [
        { column: 'keeper_id', table: 'resource_owners' },
      ])
      const unreferenced = ownersOf(Type.Object({ title: name, keeperId: Type.Integer(), price }), {
        ...{ filters: ['title'], search: ['title'], unique: [['title', 'keeperId']] },
      })
      assert.ok((await start(unreferenced)).length > 0, 'the foreign key has the name of the new column')
    })
  })
})
