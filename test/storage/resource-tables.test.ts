import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { sql } from 'kysely'
import { builtIn } from '../../src/catalog/service.ts'
import { type ColumnKind, columnTypes } from '../../src/resources/column-types.ts'
import type { Database } from '../../src/storage/database.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { TableMismatch } from '../../src/storage/resource-tables/mismatch.ts'
import type { ResourceColumn, ResourceTable } from '../../src/storage/resource-tables/resource-columns.ts'
import { rowsOf } from '../../src/storage/rows/rows.ts'
import { forEachEngine } from '../support/engines.ts'

type Column = Partial<ResourceColumn> & { kind?: ColumnKind }

const column = (name: string, { kind = 'text', ...more }: Column = {}): ResourceColumn => ({
  ...{ name, kind, sql: columnTypes[kind].sql, required: false, folded: false, unique: false, indexed: false },
  ...more,
})
const title = column('title', { required: true, folded: true, indexed: true })
const rating = column('rating', { kind: 'integer', indexed: true })
const table = (...columns: ResourceColumn[]): ResourceTable => ({
  ...{ path: '/notes', name: 'resource_notes', columns, search: [] },
})

forEachEngine((engine) => {
  describe('migrate with declared resources (T-OPS-03)', () => {
    let db: Database
    beforeEach(async () => {
      db = await engine.database()
    })
    afterEach(() => db.close())

    const migrateTo = (...columns: ResourceColumn[]) => migrate(db, { tables: [table(...columns)] })
    const run = (text: string) => db.write((tx) => sql.raw(text).execute(tx))
    let reads = 0
    // Reads on the connection that changes the table, because other connections may still use the old schema.
    const rows = async () => {
      const query = sql.raw<Record<string, unknown>>(`select * from resource_notes order by id -- ${++reads}`)
      return (await db.write((tx) => query.execute(tx))).rows
    }
    const columns = async () =>
      (await db.engine.columnsOf('resource_notes').execute(db.read)).rows.map(({ name, type }) => `${name} ${type}`)
    const indexes = async () =>
      (await db.engine.indexesOf('resource_notes').execute(db.read)).rows
        .filter((index) => index.columns !== 'id')
        .map((index) => (index.unique ? `${index.columns} unique` : index.columns.replace(/,id$/, '')))
        .sort()
    const fields = (...declared: ResourceColumn[]) => ({
      table: 'resource_notes',
      fields: declared.map(({ name }) => name),
      folded: declared.filter(({ folded }) => folded).map(({ name }) => name),
    })
    const add = (values: Record<string, unknown>, ...declared: ResourceColumn[]) =>
      db.write((tx) => rowsOf(db, fields(...declared)).insert(tx, values, '2026-03-01T12:00:00.000Z'))

    /** Returns the error message for a rejected declaration; asserts that the table did not change. */
    const mismatchOf = async (...declared: ResourceColumn[]): Promise<string> => {
      const before = [await columns(), await indexes(), await rows()]
      const error = await migrateTo(...declared).then(
        () => assert.fail('it was accepted'),
        (caught) => caught,
      )
      assert.ok(error instanceof TableMismatch, String(error))
      assert.equal(error.exitCode, 2)
      assert.deepEqual([await columns(), await indexes(), await rows()], before)
      return error.message
    }
    /** Runs the statements that the error message suggests, as an operator would. */
    const follow = async (message: string, value = "'x'") => {
      const statements = [...message.matchAll(/^ {4}(.*);$/gm)].map(([, text]) =>
        String(text).replace('<value>', value),
      )
      assert.ok(statements.length > 0, message)
      for (const statement of statements) await run(statement)
    }

    it('creates a new table with an index for each filter and sort; a second start changes nothing', async () => {
      const statements = await migrateTo(title, rating, column('code', { kind: 'exact', unique: true }))
      assert.match(String(statements[0]), /^create table "resource_notes" /)
      assert.deepEqual(await indexes(), ['code unique', 'created_at', 'rating', 'title_key', 'updated_at'])
      assert.deepEqual((await columns()).slice(5), ['title text', 'title_key text', 'rating bigint', 'code text'])
      assert.deepEqual(await migrateTo(title, rating, column('code', { kind: 'exact', unique: true })), [])
    })

    it('creates the table once if several nodes start concurrently', async () => {
      const all = await Promise.all([migrateTo(title), migrateTo(title), migrateTo(title)])
      assert.equal(all.filter((done) => done.length > 0).length, 1)
    })

    it('returns statements for a plan without running them', async () => {
      const plan = await migrate(db, { tables: [table(title)], plan: true })
      assert.deepEqual(await columns(), [])
      assert.deepEqual(await migrateTo(title), plan)
    })

    it('accepts the existing tables of the built-in resources unchanged, and records them', async () => {
      const at = '2026-03-01T12:00:00.000Z'
      const user = { name: 'A', nameKey: 'a', email: 'a@b', emailKey: 'a@b', revision: 1, createdAt: at, updatedAt: at }
      await db.write((tx) => tx.insertInto('users').values(user).execute())
      const schema = async () => {
        const tables = ['users', 'products', 'books']
        const columns = tables.map(async (name) => (await db.engine.columnsOf(name).execute(db.read)).rows)
        const indexes = tables.map(async (name) => (await db.engine.indexesOf(name).execute(db.read)).rows)
        return [await Promise.all(columns), await Promise.all(indexes)]
      }
      const stored = () => db.read.selectFrom('users').selectAll().execute()
      const before = [await schema(), await stored()]
      assert.deepEqual(await migrate(db, { tables: builtIn.tables }), [])
      assert.deepEqual(await migrate(db, { tables: builtIn.tables }), [])
      assert.deepEqual([await schema(), await stored()], before)
      const { rows: recorded } = await sql<{ name: string }>`select name from resource_tables order by name`.execute(
        db.read,
      )
      assert.deepEqual(recorded, [{ name: 'books' }, { name: 'products' }, { name: 'users' }])
    })

    it('adds an optional field, an index, and the case-folded text of existing rows, without losing rows', async () => {
      await migrateTo(column('title', { required: true }), rating)
      for (let n = 0; n < 3; n++) await add({ title: `Ä ${n}`, rating: n }, column('title'), rating)
      const text = column('text', { folded: true })
      const done = await migrateTo(title, rating, text)
      assert.ok(done.includes('-- fill resource_notes.title_key with the case-folded title'), done.join('\n'))
      assert.deepEqual(
        (await rows()).map((row) => [row.titleKey ?? row.title_key, row.rating, row.text]),
        [
          ['ä 0', 0, null],
          ['ä 1', 1, null],
          ['ä 2', 2, null],
        ],
      )
      assert.deepEqual(await indexes(), ['created_at', 'rating', 'title_key', 'updated_at'])
    })

    it('at every start, sets the case-folded column to an empty string in rows without a value', async () => {
      const genre = column('genre', { folded: true, indexed: true })
      await migrateTo(title, genre)
      await add({ title: 'T' }, title, genre)
      const filled = '-- fill resource_notes.genre_key with an empty string in 1 row'
      const sorted = { ...genre, blank: true }
      assert.deepEqual(await migrateTo(title, sorted), [filled])
      assert.deepEqual(await migrateTo(title, sorted), [])
      await add({ title: 'of an earlier release' }, title, genre)
      assert.deepEqual(await migrateTo(title, sorted), [filled])
      assert.deepEqual(
        (await rows()).map((row) => row.genreKey ?? row.genre_key),
        ['', ''],
      )
    })

    it('rejects a changed type; the error suggests SQL that keeps the old values and frees the column name', async () => {
      await migrateTo(title, rating)
      await add({ title: 'T', rating: 5 }, title, rating)
      const changed = column('rating', { folded: true, indexed: true })
      const message = await mismatchOf(title, changed)
      assert.match(
        message,
        /^\/notes: the field rating is declared as text, but stored as integer in resource_notes\. /,
      )
      await follow(message)
      await migrateTo(title, changed)
      const [row] = await rows()
      assert.deepEqual([row?.rating, row?.rating_old ?? row?.ratingOld], [null, 5])
      // Changes the type back, which must also drop the case-folded column.
      await run('alter table resource_notes drop column rating_old')
      const back = await mismatchOf(title, rating)
      await follow(back)
      await migrateTo(title, rating)
      assert.deepEqual(await indexes(), ['created_at', 'rating', 'title_key', 'updated_at'])
    })

    it('rejects a change from JSON to text, even if both have the same SQL type', async () => {
      await migrateTo(column('tags', { kind: 'json' }))
      assert.match(await mismatchOf(column('tags')), /tags is declared as text, but stored as json in resource_notes/)
      await migrateTo(column('tags', { kind: 'json' }))
    })

    it('rejects the removal of a field, with statements that preserve its data', async () => {
      await migrateTo(title, rating)
      await add({ title: 'T', rating: 5 }, title, rating)
      const message = await mismatchOf(title)
      assert.match(
        message,
        /^\/notes: the field rating is no longer declared, but resource_notes still has its column\. /,
      )
      await follow(message)
      assert.deepEqual(await migrateTo(title), [])
      assert.equal((await rows())[0]?.rating_old ?? (await rows())[0]?.ratingOld, 5)
    })

    it('rejects a new required field if the table has rows, but adds it if the table is empty', async () => {
      await migrateTo(title)
      const color = column('color', { required: true, folded: true, indexed: true })
      await add({ title: 'T' }, title)
      const message = await mismatchOf(title, color)
      assert.match(message, /^\/notes: the field color is required, but resource_notes has rows and no such column\. /)
      await follow(message, "'Red'")
      await migrateTo(title, color)
      const [row] = await rows()
      assert.deepEqual([row?.color, row?.color_key ?? row?.colorKey], ['Red', 'red'])
      await run('delete from resource_notes')
      await migrateTo(title, color, column('size', { kind: 'number', required: true }))
    })

    it('accepts a change from optional to required once every row has a value', async () => {
      await migrateTo(title, rating)
      await add({ title: 'T' }, title)
      const required = { ...rating, required: true }
      const message = await mismatchOf(title, required)
      assert.match(message, /rating is required, but has no value in 1 row of resource_notes/)
      await follow(message, '3')
      assert.deepEqual(await migrateTo(title, required), [])
      assert.deepEqual(await migrateTo(title, rating), [], 'optional again')
    })

    it('rejects a change of uniqueness, with the statement that creates or drops the index', async () => {
      await migrateTo(title)
      await add({ title: 'T' }, title)
      const unique = { ...title, unique: true }
      const message = await mismatchOf(unique)
      assert.match(message, /title is declared unique, but has no unique index in resource_notes/)
      await follow(message)
      await migrateTo(unique)
      await assert.rejects(add({ title: 't' }, title), (error) => db.engine.duplicateColumns(error)[0] === 'title_key')
      const again = await mismatchOf(title)
      assert.match(again, /title is not declared unique, but has a unique index in resource_notes/)
      await follow(again)
      await migrateTo(title)
      await add({ title: 't' }, title)
      assert.deepEqual(await indexes(), ['created_at', 'title_key', 'updated_at'])
    })

    it('reports the mismatches of all tables at once', async () => {
      const other: ResourceTable = { path: '/tags', name: 'resource_tags', columns: [title], search: [] }
      await migrate(db, { tables: [table(title, rating), other] })
      const wrong = { ...other, columns: [{ ...title, kind: 'number', folded: false } as ResourceColumn] }
      const error = await migrate(db, { tables: [table(title), wrong] }).catch((caught: Error) => caught.message)
      assert.match(String(error), /^\/notes: the field rating[\s\S]*^\/tags: the field title/m)
    })

    it('leaves the tables of undeclared resources unchanged', async () => {
      await migrateTo(title)
      await add({ title: 'T' }, title)
      assert.deepEqual(await migrate(db, { tables: [] }), [])
      assert.equal((await rows()).length, 1)
    })
  })
})
