import type { Registry } from 'prom-client'
import type { TableSize } from '../storage/table-sizes.ts'
import { registerRead, type Sample } from './samples.ts'

type Size = Pick<TableSize, 'table' | 'bytes'>

export interface TableSizesOptions {
  /** Returns the sizes of the tables, largest first; null if they are unknown. Never rejects. */
  tableSizes: () => Promise<Size[] | null>
}

/** The maximum number of tables with a sample of their own; a database may contain any number of tables. */
const maxTables = 100

/** Registers the metric of table sizes. Returns a function to call before each scrape; it never rejects. */
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

/** Returns a sample for each of the `maxTables` largest tables, and one for the total size of the others. */
function samplesOf(sizes: readonly Size[]): Sample[] {
  const rest = sizes.slice(maxTables).reduce((sum, { bytes }) => sum + bytes, 0)
  const shown = [...sizes.slice(0, maxTables), ...(rest > 0 ? [{ table: '(others)', bytes: rest }] : [])]
  return shown.map(({ table, bytes }) => ({ labels: { table }, value: bytes }))
}
