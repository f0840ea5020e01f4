import type { Kysely } from 'kysely'
import type { Engine } from '../engine.ts'

/** Creates the tables for users, products and books, with an index for every filter and sort. */
export async function resources(db: Kysely<unknown>, engine: Engine): Promise<void> {
  await table(db, engine, 'users')
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('name_key', engine.keyType, (c) => c.notNull())
    .addColumn('email', 'text', (c) => c.notNull())
    .addColumn('email_key', engine.keyType, (c) => c.notNull().unique())
    .addColumn('address', 'text')
    .addColumn('phone', 'text')
    .execute()
  await table(db, engine, 'products')
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('name_key', engine.keyType, (c) => c.notNull())
    .addColumn('price', 'double precision', (c) => c.notNull())
    .execute()
  await table(db, engine, 'books')
    .addColumn('title', 'text', (c) => c.notNull())
    .addColumn('title_key', engine.keyType, (c) => c.notNull())
    .addColumn('author', 'text', (c) => c.notNull())
    .addColumn('author_key', engine.keyType, (c) => c.notNull())
    .addColumn('genre', 'text')
    .addColumn('genre_key', engine.keyType)
    .execute()
  await indexes(db, 'users', ['name_key', 'created_at', 'updated_at'])
  await indexes(db, 'products', ['name_key', 'price', 'created_at', 'updated_at'])
  await indexes(db, 'books', ['title_key', 'author_key', 'genre_key', 'created_at', 'updated_at'])
}

const table = (db: Kysely<unknown>, engine: Engine, name: string) =>
  db.schema
    .createTable(name)
    .addColumn('id', engine.identityType, engine.identity)
    .addColumn('revision', 'integer', (c) => c.notNull())
    .addColumn('created_at', 'text', (c) => c.notNull())
    .addColumn('updated_at', 'text', (c) => c.notNull())

async function indexes(db: Kysely<unknown>, of: string, columns: string[]): Promise<void> {
  for (const column of columns) {
    await db.schema.createIndex(`${of}_${column}`).on(of).columns([column, 'id']).execute()
  }
}
