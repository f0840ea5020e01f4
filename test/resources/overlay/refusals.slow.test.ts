import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import { type TObject, Type } from 'typebox'
import { service } from '../../../src/definition/service.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import type { ResourceOptions } from '../../../src/resources/resource-options.ts'
import { migrate } from '../../../src/storage/migrate.ts'
import { migrateThoroughly } from '../../../src/storage/migrate-thoroughly.ts'
import { successiveAppsOn } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { legacyTables } from './legacy.ts'

const over = <B extends TObject>(body: B, options: Partial<ResourceOptions<B>> = {}) =>
  service({ resources: [collection({ path: '/titles', noun: 'title', table: 'legacy_books', body, ...options })] })

const fits = Type.Object({ title: Line(1, 80), pages: Type.Optional(Type.Integer({ minimum: 1, maximum: 9_999 })) })
const named = { columns: { title: 'book_title' } } as const
const scopes = 'titles:read titles:write'
const intro = '/titles: the table legacy_books, which the service did not create,'
const cure = 'Change the declaration or the table, then start again:'

forEachEngine((engine) => {
  const isSqlite = engine.name === 'sqlite'

  describe('a table named in a declaration', () => {
    const { state, start } = successiveAppsOn(engine, { prefixes: [''] })
    const { run, create, key } = legacyTables(engine, state)
    const refusal = async (definition: ReturnType<typeof over>) => {
      const before = await schema()
      let message = ''
      await assert.rejects(migrate(state.db, { tables: definition.tables }), (error: Error) => {
        assert.equal(error.name, 'TableMismatch', error.stack)
        message = error.message
        return true
      })
      assert.deepEqual(await schema(), before)
      return message.split('\n').map((line) => line.trim())
    }
    const schema = async () => {
      const columns = await state.db.engine.columnsOf('legacy_books').execute(state.db.read)
      const indexes = await state.db.engine.indexesOf('legacy_books').execute(state.db.read)
      return [columns.rows, indexes.rows]
    }
    const onEngine = (sqlite: string, postgres: string) => (isSqlite ? sqlite : postgres)

    it('is refused with an error that lists all columns that differ from the declaration', async () => {
      await run(
        `create table legacy_books (
           book_no ${isSqlite ? 'integer' : 'serial'} primary key,
           book_title ${onEngine('integer', 'varchar(20)')} not null,
           title_key integer,
           available ${onEngine('text', 'boolean')},
           pages ${onEngine('text', 'smallint')},
           weight ${onEngine('text', 'numeric(10, 2)')},
           price ${onEngine('numeric', 'numeric(10, 2)')},
           note text not null,
           created_at ${onEngine('datetime', 'timestamptz')} default current_timestamp,
           supplier text not null,
           shelf text not null default 'A')`,
      )
      const lines = await refusal(
        over(
          Type.Object({
            title: Line(1, 80),
            name: Line(1, 80),
            available: Type.Boolean(),
            pages: Type.Integer({ minimum: 0, maximum: 40_000 }),
            weight: Type.Number(),
            price: Decimal(10, 2),
            note: Type.Optional(Line(0, 80)),
            isbn: Line(1, 20),
          }),
          { columns: { title: 'book_title', name: 'title', isbn: 'book_isbn' }, filters: ['title', 'name'] },
        ),
      )
      const found = (sqlite: string, postgres: string) => `found ${onEngine(sqlite, postgres)}`
      const present =
        'book_no, book_title, title_key, available, pages, weight, price, note, created_at, supplier, shelf'
      assert.deepEqual(lines, [
        `${intro} does not fit its declaration. ${cure}`,
        'id: found no such column, expected an integer primary key for which the database generates values; alter table "legacy_books" rename column "book_no" to "id"',
        `created_at: ${found('datetime', 'timestamp with time zone')}, expected text, for instants such as 2026-03-01T12:00:00.000Z; rename this column`,
        `title (name): found no such column; the table has ${present}`,
        `book_isbn (isbn): found no such column; the table has ${present}`,
        `book_title (title): ${found('integer', 'character varying(20)')}, expected text for 80 characters`,
        `available: ${found('text', 'boolean')}, expected an integer type, with 1 for true and 0 for false`,
        `pages: ${found('text', 'smallint')}, expected an integer type for values up to 40000`,
        `weight: ${found('text', 'numeric')}, expected double precision`,
        `price: ${found('numeric', 'numeric')}, expected an integer type, for a decimal with scale 2 without its point, for values up to 9999999999`,
        'note: found not null, expected null to be allowed, because the field is optional',
        'title_key: found a column, expected none, because the case-folded text of name needs this name',
        'supplier: found not null without a default and no field for it, so no row could be inserted',
      ])
    })

    it('is refused with an error that states the number and the ids of rows that break the schema', async () => {
      await create()
      await run(
        `update legacy_books set book_title = ' ${'x'.repeat(20)} ' where id = 1`,
        'update legacy_books set pages = 10000 where id in (1, 2)',
        'update legacy_books set in_stock = 2 where id = 3',
        `update legacy_books set published = '1815-13-45' where id = 4`,
      )
      const lines = await refusal(
        over(
          Type.Object({
            title: Line(1, 20),
            pages: Type.Integer({ minimum: 1, maximum: 9_999 }),
            available: Type.Optional(Type.Boolean()),
            published: Type.Optional(Type.String({ format: 'date' })),
            label: Line(1, 20),
          }),
          { columns: { title: 'book_title', available: 'in_stock' } },
        ),
      )
      assert.deepEqual(
        lines.toSorted(),
        [
          ...[`${intro} has values that break its declaration. ${cure}`],
          'book_title (title): must not begin or end with white space, in 1 row: id 1',
          'in_stock (available): must be 1 or 0, in 1 row: id 3',
          'label: must have a value, because the field is required, in 2 rows: id 2, 3',
          'pages: must be <= 9999, in 2 rows: id 1, 2',
          'pages: must have a value, because the field is required, in 2 rows: id 3, 4',
          'published: must match format "date", in 1 row: id 4',
        ].toSorted(),
      )
    })

    it('is refused if rows share values that must be unique, alone or together', async () => {
      await create()
      await run(
        `insert into legacy_books (book_title, pages, label) values ('DUNE', 1, 'a'), ('dune', 2, 'a'), ('Emil', 412, 'scifi')`,
      )
      const lines = await refusal(
        over(
          Type.Object({ title: Line(1, 80), pages: Type.Optional(Type.Integer()), label: Type.Optional(Line(1, 80)) }),
          {
            ...{ columns: { title: 'book_title' }, unique: ['title', ['pages', 'label']] },
            body: Type.Object({
              title: Line(1, 80),
              pages: Type.Optional(Type.Integer({ minimum: 1, maximum: 9_999 })),
              label: Type.Optional(Line(1, 80)),
            }),
          } as never,
        ),
      )
      assert.deepEqual(lines.slice(1), [
        'book_title (title): must be unique, but 3 rows share a value: id 1 and 6, …',
        'pages, label: must be unique together, but 2 rows share a value: id 1 and 7',
      ])
    })

    it('is refused if it has unique indexes that are not declared', async () => {
      await create()
      await run(
        'create unique index one on legacy_books (label)',
        'create unique index two on legacy_books (book_title, pages)',
      )
      const body = Type.Object({
        title: Line(1, 80),
        pages: Type.Optional(Type.Integer({ minimum: 1, maximum: 9_999 })),
        label: Type.Optional(Line(1, 80)),
      })
      assert.deepEqual((await refusal(over(body, named))).slice(1), [
        'label: found a unique index, expected label in unique, or no such index',
        'book_title, pages: found the unique index two, expected [title, pages] in unique, or no such index',
      ])
      await start(over(body, { ...named, unique: ['label', ['title', 'pages']] }))
    })

    it('is refused if ids are out of range, or if a required field has no column and no `fill` value', async () => {
      await create()
      await run("insert into legacy_books (id, book_title) values (-1, 'No')")
      assert.deepEqual((await refusal(over(fits, named))).slice(1), ['id: must be from 1 to 2147483647, in 1 row'])
      await run('delete from legacy_books where id < 0')
      const [line = ''] = await refusal(over(Type.Object({ title: Line(1, 80), isbn: Line(1, 20) }), named))
      assert.match(line, /^\/titles: the field isbn is required, but legacy_books has rows and no such column/)
      const { service: app } = await start(
        over(Type.Object({ title: Line(1, 80), isbn: Line(1, 20) }), { ...named, migrate: { fill: { isbn: 'none' } } }),
      )
      assert.equal((await app.send({ url: '/titles/4', scopes })).json().isbn, 'none')
    })

    it('is created with the declared table and column names if it does not exist yet', async () => {
      const { service: app } = await start(over(fits, { ...named, search: ['title'], unique: ['title'] }))
      const created = await app.send({ method: 'POST', url: '/titles', scopes, payload: { title: 'Dune' } })
      assert.deepEqual([created.statusCode, created.json().title], [201, 'Dune'])
      assert.equal((await app.send({ url: '/titles?q=UN', scopes })).json().length, 1)
      const [columns] = await schema()
      assert.deepEqual(
        (columns as { name: string }[]).map(({ name }) => name).filter((name) => name.startsWith('book')),
        ['book_title', 'book_title_key'],
      )
      assert.deepEqual((await start(over(fits, { ...named, search: ['title'], unique: ['title'] }))).done, [])
    })

    it('is checked again at each start', async () => {
      await create()
      await start(over(fits, named))
      await run('alter table legacy_books add column pulped smallint not null default 0')
      assert.deepEqual((await start(over(fits, named))).done, [])
      await run('drop index if exists legacy_books_pages', 'alter table legacy_books drop column pages')
      await run('alter table legacy_books add column pages text')
      assert.match((await refusal(over(fits, named)))[1] as string, /^pages: found text, expected an integer type/)
      if (isSqlite) return
      await run('alter table legacy_books drop column pages', 'alter table legacy_books add column pages integer')
      await start(over(fits, named))
      const longer = over(Type.Object({ title: Line(1, 81), pages: fits.properties.pages }), named)
      assert.match((await refusal(longer))[1] as string, /^book_title \(title\): found character varying\(80\)/)
    })

    it('can store a new field in another existing column, if the values in it are valid', async () => {
      await create()
      await start(over(fits, named))
      const more = (max: number) =>
        over(Type.Object({ ...fits.properties, label: Type.Optional(Line(1, max)) }), { ...named, filters: ['label'] })
      assert.deepEqual((await refusal(more(5))).slice(1), [
        'label: must not have more than 5 characters, in 1 row: id 4',
      ])
      const { service: app } = await start(more(80))
      assert.deepEqual(
        (await app.send({ url: '/titles?label=SCIFI', scopes })).json().map(({ id }: { id: number }) => id),
        [1],
      )
    })

    it('is refused if a field changes its column, until plinth migrate --tidy renames the old column', async () => {
      await create()
      await start(over(fits, { ...named, search: ['title'], unique: ['title'] }))
      const moved = over(fits, { columns: { title: 'heading' }, search: ['title'], unique: ['title'] })
      assert.deepEqual(await refusal(moved), [
        '/titles: the field title is stored in the column book_title of legacy_books, but columns names heading. ' +
          "Declare columns.title as 'book_title', or stop the service and run plinth migrate --tidy, which renames the column",
      ])
      const thorough = { tables: moved.tables, exclude: async () => () => {} }
      assert.deepEqual(await migrateThoroughly(state.db, { ...thorough, tidy: true }), [
        'drop index if exists "legacy_books_book_title_key"',
        'alter table "legacy_books" rename column "book_title" to "heading"',
        'alter table "legacy_books" rename column "book_title_key" to "heading_key"',
        'create unique index "legacy_books_heading_key" on "legacy_books" ("heading_key")',
      ])
      const { service: app, done } = await start(moved)
      assert.deepEqual(done, [])
      assert.equal((await app.send({ url: '/titles?q=dune', scopes })).json()[0].title, 'Dune')
      // Without `columns`, a column that the service did not create keeps its name, so there is nothing to rename.
      const unnamed = over(fits, { search: ['title'], unique: ['title'] })
      assert.deepEqual(await migrateThoroughly(state.db, { ...thorough, tables: unnamed.tables, tidy: true }), [])
    })

    it('keeps its columns and rows after plinth migrate --allow-data-loss', async () => {
      await create()
      await start(over(fits, { ...named, search: ['title'] }))
      const other = over(Type.Object({ title: Line(1, 80) }), { ...named, search: ['title'] })
      assert.deepEqual(await refusal(other), [
        '/titles: the field pages is no longer declared, but legacy_books still has its column. Declare it again, ' +
          'or stop using the column pages with plinth migrate --allow-data-loss, which keeps it and its values',
      ])
      const thorough = { exclude: async () => () => {}, allowDataLoss: true }
      assert.deepEqual(await migrateThoroughly(state.db, { ...thorough, tables: other.tables }), [
        '-- stop using legacy_books.pages, which stays with its values in 2 rows',
      ])
      const none = service({
        resources: [collection({ path: '/others', noun: 'other', body: Type.Object({ name: Line(1, 9) }) })],
      })
      const lines = await migrateThoroughly(state.db, { ...thorough, tables: none.tables })
      assert.ok(!lines.join().includes('legacy_books'), lines.join('\n'))
      const { rows } = await sql`select id, pages from legacy_books order by id`.execute(state.db.read)
      assert.deepEqual(rows.length, 4)
      await start(over(fits, { ...named, search: ['title'] }))
    })

    it('is left unchanged by a migration plan, which lists the statements and row counts', async () => {
      await run(`create table legacy_books (${key}, book_title text not null, notes text)`)
      await run("insert into legacy_books (book_title) values ('Dune'), ('Emma')")
      const before = await schema()
      const definition = over(Type.Object({ title: Line(1, 80), shelf: Line(1, 90) }), {
        ...{ ...named, filters: ['title'], migrate: { fill: { shelf: (row) => `of ${row.title}` } } },
      })
      const now = () => Date.parse('2026-03-01T12:00:00Z')
      const plan = await migrateThoroughly(state.db, {
        ...{ tables: definition.tables, plan: true, now, exclude: async () => () => {} },
      })
      const at = "'2026-03-01T12:00:00.000Z'"
      assert.deepEqual(plan, [
        '-- use legacy_books, which exists, with 2 rows; no field uses notes',
        'alter table "legacy_books" add column "revision" integer default 1 not null',
        `alter table "legacy_books" add column "created_at" text default ${at} not null`,
        `alter table "legacy_books" add column "updated_at" text default ${at} not null`,
        'alter table "legacy_books" add column "shares_second" integer default 0 not null',
        'create index "legacy_books_created_at" on "legacy_books" ("created_at", "id")',
        'create index "legacy_books_updated_at" on "legacy_books" ("updated_at", "id")',
        `alter table "legacy_books" add column "book_title_key" text${isSqlite ? '' : ' collate "C"'}`,
        '-- fill legacy_books.book_title_key with the case-folded book_title in 2 rows',
        'alter table "legacy_books" add column "shelf" text',
        '-- fill shelf of legacy_books in 2 rows',
        'create index "legacy_books_book_title_key" on "legacy_books" ("book_title_key", "id")',
      ])
      assert.deepEqual(await schema(), before)
      assert.deepEqual(
        await migrateThoroughly(state.db, { tables: definition.tables, now, exclude: async () => () => {} }),
        plan,
      )
    })
  })
})
