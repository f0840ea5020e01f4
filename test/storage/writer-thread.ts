import { parentPort, workerData } from 'node:worker_threads'
import { openDatabase } from '../../src/storage/open.ts'
import type { SqliteMemory } from '../../src/storage/sqlite/open.ts'

/** The input of a writer thread, including its number and the product names that it writes. */
export interface WriterData {
  url: string
  memory: SqliteMemory
  thread: number
  names: string[]
  /** The product to rename; null to add one for each name. */
  id: number | null
}

// Writes all names concurrently, each in its own write unit, and posts the number of commits.
const { url, memory, thread, names, id } = workerData as WriterData
let commits = 0
const db = await openDatabase(url, { shared: { memory, thread }, onCommit: () => commits++ })
const instant = '2026-01-01T00:00:00.000Z'
const product = (name: string) => ({
  name,
  nameKey: name,
  price: 1,
  revision: 1,
  createdAt: instant,
  updatedAt: instant,
})
await Promise.all(
  names.map((name) =>
    db.write(async (tx) => {
      if (id === null) await tx.insertInto('products').values(product(name)).execute()
      else await tx.updateTable('products').set({ name }).where('id', '=', id).returning('id').execute()
    }),
  ),
)
await db.close()
parentPort?.postMessage(commits)
