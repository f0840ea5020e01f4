import { closeSync, fdatasyncSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { builtIn } from '../src/catalog/service.ts'
import { migrate } from '../src/storage/migrate.ts'
import { openDatabase } from '../src/storage/open.ts'
import { openSqliteFile } from '../src/storage/sqlite/driver.ts'
import { openSandbox } from './sandbox.ts'
import { insertProducts, nameOf, priceOf } from './service.ts'

/**
 * Measures the CPU time of SQLite alone per durable insert of a product: the statement, and its part of the commit, the
 * sync and the checkpoint. Compares transactions of different sizes, with and without the four indexes of the table.
 * Prints the lowest time of several rounds.
 *
 *   node bench/sqlite-writes.ts
 */
const [rounds, perRound, rows] = [7, 16_000, 100_000]
const sizes = [1, 2, 8, 32]
const sandbox = openSandbox()

/** Creates a database of the service with 100,000 products, and returns a function that inserts others. */
async function openProducts(name: string, hasIndexes: boolean) {
  const file = join(sandbox.folder, name)
  const database = await openDatabase(`file:${file}`)
  await migrate(database, { tables: builtIn.tables })
  await database.close()
  insertProducts(file, rows)
  const { db } = openSqliteFile(file)
  // The service syncs the log itself.
  db.exec('pragma synchronous = normal')
  const indexes = db.prepare(`select name from sqlite_schema where type = 'index' and tbl_name = 'products'`).all()
  if (!hasIndexes) for (const index of indexes) db.exec(`drop index ${index.name}`)
  const [begin, commit] = [db.prepare('begin immediate'), db.prepare('commit')]
  const insert = db.prepare(
    'insert into products (name, name_key, price, revision, created_at, updated_at) values (?, ?, ?, 1, ?, ?)',
  )
  let at = rows
  return (count: number, perCommit: number): void => {
    const log = openSync(`${file}-wal`, 'r+')
    for (let done = 0; done < count; done += perCommit) {
      begin.run()
      const now = new Date().toISOString()
      for (let n = 0; n < perCommit; n++) {
        const name = nameOf(++at)
        insert.run(name, name.toLowerCase(), priceOf(at), now, now)
      }
      commit.run()
      fdatasyncSync(log)
    }
    closeSync(log)
  }
}

const tables = {
  'with indexes': await openProducts('indexed.db', true),
  'without indexes': await openProducts('plain.db', false),
}
for (const perCommit of sizes) {
  const lowest = Object.entries(tables).map(([title, insert]) => {
    const times = Array.from({ length: rounds }, () => {
      const before = process.cpuUsage()
      insert(perRound, perCommit)
      const { user, system } = process.cpuUsage(before)
      return (user + system) / perRound
    })
    return `${Math.min(...times).toFixed(1)} µs ${title}`
  })
  console.log(`${String(perCommit).padStart(2)} inserts per commit: ${lowest.join(', ')}`)
}
await sandbox.clear()
