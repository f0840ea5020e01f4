import { DatabaseSync } from 'node:sqlite'

const adjectives = ['Brass', 'Copper', 'Folding', 'Heavy', 'Light', 'Oak', 'Steel', 'Woven']
const nouns = ['anvil', 'basket', 'bench', 'clock', 'hinge', 'kettle', 'lantern', 'vise']
const firstMs = Date.UTC(2024, 0, 1)

/** A name that is its own, with a comma now and then, as real ones have. */
export const nameOf = (id: number): string =>
  `${adjectives[id % 8]}${id % 10 === 0 ? ', old' : ''} ${nouns[(id >> 3) % 8]} ${String(id).padStart(7, '0')}`

export const priceOf = (id: number): number => (((id * 7_919) % 90_000) + 10_001) / 100

/** Puts products 1 to `count` into a migrated, otherwise unused database file. */
export function fill(file: string, count: number): void {
  const db = new DatabaseSync(file)
  db.exec('pragma synchronous = off; pragma cache_size = -500000; begin')
  const insert = db.prepare(
    'insert into products (name, name_key, price, revision, created_at, updated_at) values (?, ?, ?, 1, ?, ?)',
  )
  for (let id = 1; id <= count; id++) {
    const at = new Date(firstMs + id * 1_000).toISOString()
    insert.run(nameOf(id), nameOf(id).toLowerCase(), priceOf(id), at, at)
  }
  db.exec('commit; pragma wal_checkpoint(truncate)')
  db.close()
}

/** How many products a file holds. */
export const countProducts = (file: string): number => numberIn(file, 'select count(*) as number from products')

/** How often the products of a file were made or changed. */
export const countRevisions = (file: string): number => numberIn(file, 'select sum(revision) as number from products')

function numberIn(file: string, query: string): number {
  const db = new DatabaseSync(file, { readOnly: true })
  const { number } = db.prepare(query).get() as { number: number }
  db.close()
  return number
}
