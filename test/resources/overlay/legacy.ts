import { sql } from 'kysely'
import type { Database } from '../../../src/storage/database.ts'
import type { EngineUnderTest } from '../../support/engines.ts'

/** Creates tables of books and authors as a legacy application would, with the column types of each engine. */
export function legacyTables({ name }: Pick<EngineUnderTest, 'name'>, state: { db: Database }) {
  const isSqlite = name === 'sqlite'
  const key = isSqlite ? 'id integer primary key' : 'id serial primary key'
  const run = (...statements: string[]) =>
    state.db.write(async (tx) => {
      for (const statement of statements) await sql.raw(statement).execute(tx)
    })
  const create = () =>
    run(
      `create table legacy_authors (${key}, full_name varchar(60) not null)`,
      `insert into legacy_authors (full_name) values ('Jane Austen'), ('Frank Herbert')`,
      `create table legacy_books (
         ${key},
         book_title varchar(80) not null,
         author_no integer references legacy_authors (id),
         pages integer,
         in_stock ${isSqlite ? 'boolean' : 'smallint'},
         price_cents bigint,
         published ${isSqlite ? 'date' : 'varchar(10)'},
         label text,
         legacy_code text)`,
      `insert into legacy_books (book_title, author_no, pages, in_stock, price_cents, published, label, legacy_code) values
         ('Dune', 2, 412, 1, 1250, '1965-08-01', 'SciFi', 'D-1'),
         ('ÉMILE', null, 200, 0, 1999, '1762-05-22', null, 'E-2'),
         ('emma', 1, null, null, null, '1815-12-23', null, 'E-3'),
         ('Emmeline', null, null, null, null, null, 'gothic', null)`,
    )
  return { run, create, key }
}
