import { DatabaseSync } from 'node:sqlite'

/** A product as the peers send it; times are ISO 8601 texts. */
export interface Product {
  id: number
  name: string
  price: number
  createdAt: string
  updatedAt: string
}

type Values = Pick<Product, 'name' | 'price'>

/** The methods of `node:sqlite` that the peers use; those of better-sqlite3 work in the same way. */
export type Driver = Pick<DatabaseSync, 'exec' | 'prepare'>

/** Creates the database file of a peer and inserts these products. */
export function createProducts(file: string, products: Iterable<Product>): void {
  const db = new DatabaseSync(file)
  db.exec(`pragma journal_mode = wal;
    create table products (
      id integer primary key, name text not null, price real not null, created_at text not null, updated_at text not null
    );
    begin`)
  const insert = db.prepare('insert into products values (?, ?, ?, ?, ?)')
  for (const { id, name, price, createdAt, updatedAt } of products) insert.run(id, name, price, createdAt, updatedAt)
  db.exec('commit; pragma wal_checkpoint(truncate)')
  db.close()
}

/**
 * Returns the reads and writes of a peer, as prepared statements. Each write is one transaction, which is on disk when
 * the function returns. `read` and `replace` return undefined for an unknown id.
 */
export function productsIn(db: Driver) {
  db.exec('pragma journal_mode = wal; pragma synchronous = full')
  const columns = 'id, name, price, created_at as createdAt, updated_at as updatedAt'
  const read = db.prepare(`select ${columns} from products where id = ?`)
  const list = db.prepare(`select ${columns} from products where id > ? order by id limit ?`)
  const create = db.prepare(
    `insert into products (name, price, created_at, updated_at) values (?, ?, ?, ?) returning ${columns}`,
  )
  const replace = db.prepare(
    `update products set name = ?, price = ?, updated_at = ? where id = ? returning ${columns}`,
  )
  const now = () => new Date().toISOString()
  return {
    read: (id: number) => read.get(id) as unknown as Product | undefined,
    list: (after: number, limit: number) => list.all(after, limit) as unknown as Product[],
    create: ({ name, price }: Values) => {
      const at = now()
      return create.get(name, price, at, at) as unknown as Product
    },
    replace: (id: number, { name, price }: Values) =>
      replace.get(name, price, now(), id) as unknown as Product | undefined,
  }
}

/** Returns the `Link` field of a page; null if it is the last page. */
export function nextLink(page: Product[], limit: number): string | null {
  const last = page.at(-1)
  return last && page.length === limit ? `</products?limit=${limit}&after=${last.id}>; rel="next"` : null
}
