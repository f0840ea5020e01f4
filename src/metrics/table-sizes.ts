import type { Registry } from 'prom-client'
import type { TableSize } from '../storage/table-sizes.ts'
import { registerRead, type Sample } from './samples.ts'

type Size = Pick<TableSize, 'table' | 'bytes'>

export interface TableSizesOptions {
  /** Returns the sizes of the tables, largest first; null if they are unknown. Never rejects. */
  tableSizes: () => Promise<Size[] | null>
}

/** How many tables have a sample of their own, because a database may contain any number of other tables. */
const maxTables = 100

/** Registers the sizes of tables. Returns a function to call before each scrape; it never rejects. */
export function tableSizesState(registry: Registry, { tableSizes }: TableSizesOptions): () => Promise<void> {
  let sizes: Size[] = []
  registerRead(registry, {
    name: 'plinth_database_table_bytes',
    help: 'Size of a table with its indexes, at most five minutes old; on SQLite, an estimate for large tables',
    type: 'gauge',
    read: () => samplesOf(sizes),
  })
  return async () => {
    sizes = (await tableSizes()) ?? []
  }
}

/** Returns a sample for each table, and one for the sum of the tables beyond `maxTables`. */
function samplesOf(sizes: readonly Size[]): Sample[] {
  const rest = sizes.slice(maxTables).reduce((sum, { bytes }) => sum + bytes, 0)
  const shown = [...sizes.slice(0, maxTables), ...(rest > 0 ? [{ table: '(others)', bytes: rest }] : [])]
  return shown.map(({ table, bytes }) => ({ labels: { table }, value: bytes }))
}
