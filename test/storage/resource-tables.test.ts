import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { sql } from 'kysely'
import { builtIn } from '../../src/catalog/service.ts'
import type { Database } from '../../src/storage/database.ts'
import { migrate } from '../../src/storage/migrate.ts'
import type { ResourceColumn, ResourceTable } from '../../src/storage/resource-tables/resource-columns.ts'
import { TableMismatch } from '../../src/storage/resource-tables/resource-tables.ts'
import { rowsOf } from '../../src/storage/rows/rows.ts'
import { forEachEngine } from '../support/engines.ts'

const column = (name: string, more: Partial<ResourceColumn> = {}): ResourceColumn => ({
  ...{ name, kind: 'text', required: false, folded: false, unique: false, indexed: false },
  ...more,
})
const title = column('title', { required: true, folded: true, indexed: true })
const rating = column('rating', { kind: 'integer', indexed: true })
const table = (...columns: ResourceColumn[]): ResourceTable => ({
  ...{ path: '/notes', name: 'resource_notes', columns, search: [] },
})

forEachEngine((engine) => {
  describe('the tables of declared resources (T-OPS-03)', () => {
    let db: Database
    beforeEach(async () => {
      db = await engine.database()
    })
    afterEach(() => db.close())

    const bring = (...columns: ResourceColumn[]) => migrate(db, { tables: [table(...columns)] })
    const run = (text: string) => db.write((tx) => sql.raw(text).execute(tx))
    let looks = 0
    // Uses the connection that changes the table, and a new statement: other connections notice changes only when they run.
    const rows = async () => {
      const look = sql.raw<Record<string, unknown>>(`select * from resource_notes order by id -- ${++looks}`)
      return (await db.write((tx) => look.execute(tx))).rows
    }
    const columns = async () =>
      (await db.engine.columnsOf('resource_notes').execute(db.read)).rows.map(({ name, type }) => `${name} ${type}`)
    const indexes = async () =>
      (await db.engine.indexesOf('resource_notes').execute(db.read)).rows
        .filter((index) => index.column !== 'id')
        .map((index) => `${index.column}${index.unique ? ' unique' : ''}`)
        .sort()
    const fields = (...given: ResourceColumn[]) => ({
      table: 'resource_notes',
      fields: given.map(({ name }) => name),
      folded: given.filter(({ folded }) => folded).map(({ name }) => name),
    })
    const add = (values: Record<string, unknown>, ...given: ResourceColumn[]) =>
      db.write((tx) => rowsOf(db, fields(...given)).insert(tx, values, '2026-03-01T12:00:00.000Z'))

    /** The error message of a rejected change, which must have changed nothing. */
    const refusal = async (...given: ResourceColumn[]): Promise<string> => {
      const before = [await columns(), await indexes(), await rows()]
      const error = await bring(...given).then(
        () => assert.fail('it was accepted'),
        (caught) => caught,
      )
      assert.ok(error instanceof TableMismatch, String(error))
      assert.equal(error.exitCode, 2)
      assert.deepEqual([await columns(), await indexes(), await rows()], before)
      return error.message
    }
    /** Runs the statements that the error message recommends, as its reader would. */
    const obey = async (message: string, value = "'x'") => {
      const statements = [...message.matchAll(/^ {4}(.*);$/gm)].map(([, text]) =>
        String(text).replace('<value>', value),
      )
      assert.ok(statements.length > 0, message)
      for (const statement of statements) await run(statement)
    }

    it('creates a new table with an index behind each filter and sort; a second start does nothing', async () => {
      const statements = await bring(title, rating, column('code', { kind: 'exact', unique: true }))
      assert.match(String(statements[0]), /^create table "resource_notes" /)
      assert.deepEqual(await indexes(), ['code unique', 'created_at', 'rating', 'title_key', 'updated_at'])
      assert.deepEqual((await columns()).slice(5), ['title text', 'title_key text', 'rating bigint', 'code text'])
      assert.deepEqual(await bring(title, rating, column('code', { kind: 'exact', unique: true })), [])
    })

    it('nodes that start together create it once', async () => {
      const all = await Promise.all([bring(title), bring(title), bring(title)])
      assert.equal(all.filter((done) => done.length > 0).length, 1)
    })

    it('a plan returns what would be done and does nothing', async () => {
      const plan = await migrate(db, { tables: [table(title)], plan: true })
      assert.deepEqual(await columns(), [])
      assert.deepEqual(await bring(title), plan)
    })

    it('accepts the tables of the first release, and existing users do not change', async () => {
      const at = '2026-03-01T12:00:00.000Z'
      const user = { name: 'A', nameKey: 'a', email: 'a@b', emailKey: 'a@b', revision: 1, createdAt: at, updatedAt: at }
      await db.write((tx) => tx.insertInto('users').values(user).execute())
      assert.deepEqual(await migrate(db, { tables: builtIn.tables }), [])
      assert.deepEqual(await migrate(db, { tables: builtIn.tables }), [])
      const { rows: recorded } = await sql<{ name: string }>`select name from resource_tables order by name`.execute(
        db.read,
      )
      assert.deepEqual(recorded, [{ name: 'books' }, { name: 'products' }, { name: 'users' }])
    })

    it('adds an optional field, an index and the case-folded text of existing rows; the rows remain', async () => {
      await bring(column('title', { required: true }), rating)
      for (let n = 0; n < 3; n++) await add({ title: `Ä ${n}`, rating: n }, column('title'), rating)
      const text = column('text', { folded: true })
      const done = await bring(title, rating, text)
      assert.ok(done.includes('-- fill resource_notes.title_key with the folded title'), done.join('\n'))
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

    it('fills an empty text into the sort-key column of rows without a value, and again at the next start', async () => {
      const genre = column('genre', { folded: true, indexed: true })
      await bring(title, genre)
      await add({ title: 'T' }, title, genre)
      const filled = '-- fill resource_notes.genre_key with an empty text in 1 rows'
      const sorted = { ...genre, blank: true }
      assert.deepEqual(await bring(title, sorted), [filled])
      assert.deepEqual(await bring(title, sorted), [])
      await add({ title: 'of an earlier release' }, title, genre)
      assert.deepEqual(await bring(title, sorted), [filled])
      assert.deepEqual(
        (await rows()).map((row) => row.genreKey ?? row.genre_key),
        ['', ''],
      )
    })

    it('rejects another type with the statements to run; they preserve the old values and allow the new column', async () => {
      await bring(title, rating)
      await add({ title: 'T', rating: 5 }, title, rating)
      const changed = column('rating', { folded: true, indexed: true })
      const message = await refusal(title, changed)
      assert.match(message, /^\/notes: the field rating is declared as text, and resource_notes has it as integer\. /)
      await obey(message)
      await bring(title, changed)
      const [row] = await rows()
      assert.deepEqual([row?.rating, row?.rating_old ?? row?.ratingOld], [null, 5])
      // And back again, with the case-folded companion in place.
      await run('alter table resource_notes drop column rating_old')
      const back = await refusal(title, rating)
      await obey(back)
      await bring(title, rating)
      assert.deepEqual(await indexes(), ['created_at', 'rating', 'title_key', 'updated_at'])
    })

    it('distinguishes kinds that share a column type', async () => {
      await bring(column('tags', { kind: 'json' }))
      assert.match(await refusal(column('tags')), /tags is declared as text, and resource_notes has it as json/)
      await bring(column('tags', { kind: 'json' }))
    })

    it('rejects a field that is no longer declared, and preserves its data', async () => {
      await bring(title, rating)
      await add({ title: 'T', rating: 5 }, title, rating)
      const message = await refusal(title)
      assert.match(message, /^\/notes: the field rating is not declared any more, and resource_notes has its values\. /)
      await obey(message)
      assert.deepEqual(await bring(title), [])
      assert.equal((await rows())[0]?.rating_old ?? (await rows())[0]?.ratingOld, 5)
    })

    it('rejects a new required field if there are rows, and adds it if there are none', async () => {
      await bring(title)
      const color = column('color', { required: true, folded: true, indexed: true })
      await add({ title: 'T' }, title)
      const message = await refusal(title, color)
      assert.match(
        message,
        /^\/notes: the field color is required, and the rows of resource_notes have no such column\. /,
      )
      await obey(message, "'Red'")
      await bring(title, color)
      const [row] = await rows()
      assert.deepEqual([row?.color, row?.color_key ?? row?.colorKey], ['Red', 'red'])
      await run('delete from resource_notes')
      await bring(title, color, column('size', { kind: 'number', required: true }))
    })

    it('an optional field may become required once every row has a value', async () => {
      await bring(title, rating)
      await add({ title: 'T' }, title)
      const required = { ...rating, required: true }
      const message = await refusal(title, required)
      assert.match(message, /rating is required, and 1 rows of resource_notes have no value for it/)
      await obey(message, '3')
      assert.deepEqual(await bring(title, required), [])
      assert.deepEqual(await bring(title, rating), [], 'and optional again')
    })

    it('rejects new uniqueness with the index to create, and removed uniqueness with the one to drop', async () => {
      await bring(title)
      await add({ title: 'T' }, title)
      const unique = { ...title, unique: true }
      const message = await refusal(unique)
      assert.match(message, /title is declared unique, and resource_notes does not hold it unique/)
      await obey(message)
      await bring(unique)
      await assert.rejects(add({ title: 't' }, title), (error) => db.engine.duplicateColumn(error) === 'title_key')
      const again = await refusal(title)
      assert.match(again, /title is not declared unique, and resource_notes holds it unique/)
      await obey(again)
      await bring(title)
      await add({ title: 't' }, title)
      assert.deepEqual(await indexes(), ['created_at', 'title_key', 'updated_at'])
    })

    it('names every mismatch of all tables at once', async () => {
      const other: ResourceTable = { path: '/tags', name: 'resource_tags', columns: [title], search: [] }
      await migrate(db, { tables: [table(title, rating), other] })
      const wrong = { ...other, columns: [{ ...title, kind: 'number', folded: false } as ResourceColumn] }
      const error = await migrate(db, { tables: [table(title), wrong] }).catch((caught: Error) => caught.message)
      assert.match(String(error), /^\/notes: the field rating[\s\S]*^\/tags: the field title/m)
    })

    it('does not touch tables of resources that are no longer declared', async () => {
      await bring(title)
      await add({ title: 'T' }, title)
      assert.deepEqual(await migrate(db, { tables: [] }), [])
      assert.equal((await rows()).length, 1)
    })
  })
})
