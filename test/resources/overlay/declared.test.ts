import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import { Type } from 'typebox'
import { service } from '../../../src/definition/service.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { isOwnTable } from '../../../src/storage/tables/own-tables.ts'
import { forEachEngine } from '../../support/engines.ts'

const body = Type.Object({ title: Line(1, 80), author: Line(1, 80), pages: Type.Optional(Type.Integer()) })
const declared = { path: '/titles', noun: 'title', body } as const

/** Never called: TypeScript checks this code (`npm run types`) and reports every unused `@ts-expect-error`. */
export function typed() {
  collection({ ...declared, table: 'legacy_books', columns: { title: 'book_title', pages: 'page_count' } })
  collection({ ...declared, access: () => true, columns: { createdBy: 'made_by' } })
  // @ts-expect-error the body has no such field
  collection({ ...declared, columns: { titel: 'book_title' } })
  // @ts-expect-error a column name must be a string
  collection({ ...declared, columns: { title: 7 } })
  // @ts-expect-error the column of the primary key cannot be renamed
  collection({ ...declared, columns: { id: 'book_id' } })
  // @ts-expect-error a table name must be text
  collection({ ...declared, table: 7 })
  // @ts-expect-error `columns` must be an object, not a list
  collection({ ...declared, columns: ['book_title'] })
}

function tooLong(table: string, column: string, field: string) {
  return `the table '${table}' and the column '${column}' of ${field} are too long together: at most 58 characters`
}

const nameRule = "must be a lower-case name such as 'book_title', of at most 52 characters a-z, 0-9 and _"
const refused: [name: string, options: object, message: string][] = [
  ['a table with an invalid name', { table: 'Legacy Books' }, `table ${nameRule}`],
  ['a table with quotes', { table: 'books"; drop table x; --' }, `table ${nameRule}`],
  ['a table with a long name', { table: 'b'.repeat(53) }, `table ${nameRule}`],
  [
    'a table of the service',
    { table: 'webhooks' },
    "table is 'webhooks', which belongs to the service or the database",
  ],
  [
    'a table of SQLite',
    { table: 'sqlite_schema' },
    "table is 'sqlite_schema', which belongs to the service or the database",
  ],
  [
    'columns that are not an object',
    { columns: ['a'] },
    "columns must be an object with the columns of fields, such as { title: 'book_title' }",
  ],
  [
    'an unknown field',
    { columns: { titel: 'book_title' } },
    "columns names 'titel', but body has no such field; did you mean title?",
  ],
  [
    'createdBy without access rules',
    { columns: { createdBy: 'made_by' } },
    "columns names 'createdBy', but body has no such field",
  ],
  [
    'a column for id',
    { columns: { id: 'book_id' } },
    'columns cannot include id: the primary key must be a column named id; rename it in the table',
  ],
  ['a column with an invalid name', { columns: { title: 'bookTitle' } }, `columns.title ${nameRule}`],
  ['a column that is not text', { columns: { title: 7 } }, `columns.title ${nameRule}`],
  [
    'a column that every table has',
    { columns: { title: 'revision' } },
    "columns.title is 'revision', which is reserved",
  ],
  ['a column that the database reserves', { columns: { title: 'ctid' } }, "columns.title is 'ctid', which is reserved"],
  [
    'the column of another field',
    { columns: { title: 'author' } },
    "the fields title and author have the same column 'author'",
  ],
  [
    'one column for two fields',
    { columns: { title: 'a', author: 'a' } },
    "the fields title and author have the same column 'a'",
  ],
  [
    'the column of the case-folded text of another field',
    { columns: { pages: 'title_key' } },
    "the column 'title_key' of pages is reserved for the case-folded text of title",
  ],
  [
    'names that are too long together',
    { table: 't'.repeat(30), columns: { title: 'c'.repeat(30) } },
    tooLong('t'.repeat(30), 'c'.repeat(30), 'title'),
  ],
  [
    'a table that is too long for the column of a field',
    { table: 't'.repeat(52), body: Type.Object({ title: Line(1, 80), authorId: Type.Integer() }) },
    tooLong('t'.repeat(52), 'author_id', 'authorId'),
  ],
  [
    'a column that is too long for the table of the path',
    { columns: { title: 'c'.repeat(44) } },
    tooLong('resource_titles', 'c'.repeat(44), 'title'),
  ],
]

describe('the `table` and `columns` options', () => {
  for (const [name, options, message] of refused) {
    it(`refuse ${name}`, () => {
      assert.throws(() => collection({ ...declared, ...options } as never), {
        name: 'DefinitionError',
        message: `/titles: ${message}`,
      })
    })
  }

  it('cannot be combined with the path of a built-in resource', () => {
    assert.throws(() => collection({ ...declared, path: '/books', table: 'legacy_books' }), {
      message:
        '/books: table and columns cannot be combined with this path, which has a table of the service: choose another path',
    })
  })

  it('refuse a table that another collection uses', () => {
    const one = collection({ ...declared, table: 'legacy_books' })
    const other = collection({ ...declared, path: '/others', noun: 'other', table: 'legacy_books' })
    assert.throws(() => service({ resources: [one, other] }), {
      message: 'service: two resources have the table legacy_books',
    })
    const own = collection({ ...declared, path: '/more', noun: 'more' })
    assert.throws(() => service({ resources: [own, collection({ ...declared, table: 'resource_more' })] }), {
      message: 'service: two resources have the table resource_more',
    })
  })
})

forEachEngine((engine) => {
  it('the name of every table in a new database is reserved', async () => {
    const db = await engine.database()
    const names =
      engine.name === 'sqlite'
        ? sql<{ name: string }>`select name from sqlite_schema where type = 'table'`
        : sql<{
            name: string
          }>`select table_name as name from information_schema.tables where table_schema = current_schema()`
    const { rows } = await names.execute(db.read)
    await db.close()
    assert.deepEqual(
      rows.filter(({ name }) => !isOwnTable(name)),
      [],
    )
    assert.ok(rows.length > 25)
  })
})
