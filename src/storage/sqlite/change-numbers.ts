import type { RowId } from '../ids.ts'
import type { RecordedChanges } from './change-recorder.ts'

const [rowBuckets, tableBuckets] = [2 ** 16, 2 ** 10]
const numberBytes = Float64Array.BYTES_PER_ELEMENT
const changeBytes = (2 + 2 * tableBuckets + rowBuckets + 1) * numberBytes

/** Creates memory in which several threads can share change numbers. */
export const changeMemory = (): SharedArrayBuffer => new SharedArrayBuffer(changeBytes)

/** For each table and row, the number of the last transaction that may have changed it. */
export interface ChangeNumbers {
  /** Returns the number of the last transaction. */
  last: () => number
  lastOf: (table: string) => number
  lastOfRow: (table: string, id: RowId) => number
  /** Records a transaction that may have changed any row. */
  addUnknown: () => void
  /**
   * Records a transaction with these changes, under two numbers: the first for rows that it changed once, each by a
   * statement that returned the row; the second for all other changes.
   */
  add: (changed: RecordedChanges) => void
  /** The file's commit count when the last transaction was recorded. */
  commits: () => number
  setCommits: (commits: number) => void
}

/**
 * Returns the change numbers stored in this memory. Different rows or tables may share a bucket, so a change to one may
 * count as a change to another, but no change is missed.
 *
 * The numbers change only while the write lock is held. Reading a number without the lock is safe, because its 8 bytes
 * are read at once, and a write is acknowledged only after its numbers are stored.
 */
export function changeNumbers(memory: ArrayBufferLike = new ArrayBuffer(changeBytes)): ChangeNumbers {
  /** The number of the last transaction, and of the last one that may have changed everything. */
  const latest = new Float64Array(memory, 0, 2)
  /** For each table, the last transaction that changed or added any row, and the last one that changed unknown rows. */
  const tables = new Float64Array(memory, latest.byteLength, 2 * tableBuckets)
  const rows = new Float64Array(memory, tables.byteOffset + tables.byteLength, rowBuckets)
  const commits = new Int32Array(memory, rows.byteOffset + rows.byteLength, 1)
  const read = (part: Float64Array, at: number) => part[at] as number
  const tableAt = tablePositions()
  return {
    last: () => read(latest, 0),
    lastOf: (table) => Math.max(read(latest, 1), read(tables, tableAt(table))),
    lastOfRow: (table, id) =>
      Math.max(read(latest, 1), read(tables, tableAt(table) + 1), read(rows, bucketOf(table, id))),
    addUnknown: () => {
      latest[1] = read(latest, 0) + 1
      latest[0] = read(latest, 1)
    },
    add: (changed) => {
      const first = read(latest, 0) + 1
      const second = first + 1
      if (changed.isEverything) latest[1] = second
      for (const table of changed.grown) tables[tableAt(table)] = second
      for (const [table, id] of changed.rows) {
        const bucket = bucketOf(table, id)
        tables[tableAt(table)] = second
        rows[bucket] = read(rows, bucket) < first ? first : second
      }
      for (const table of changed.tables) tables.fill(second, tableAt(table), tableAt(table) + 2)
      // Stored last, because a thread that reads this number must also find those of the tables and rows.
      latest[0] = second
    },
    commits: () => Atomics.load(commits, 0),
    setCommits: (count) => void Atomics.store(commits, 0, count),
  }
}

/** Creates a lookup, by table name, of the index of a table's two numbers. */
function tablePositions(): (table: string) => number {
  const known = new Map<string, number>()
  return (table) => {
    const before = known.get(table)
    if (before !== undefined) return before
    const position = 2 * (hashOf(table) % tableBuckets)
    known.set(table, position)
    return position
  }
}

/** Returns the bucket of a row: 16 bits of a multiplicative hash. */
function bucketOf(table: string, id: RowId): number {
  // The first and last characters distinguish most tables. If two tables share buckets, the only cost is an extra read.
  const ofTable = table.charCodeAt(0) * 257 + table.charCodeAt(table.length - 1)
  return Math.imul((typeof id === 'number' ? id : hashOf(id)) ^ ofTable, 0x9e_37_79_b1) >>> 16
}

function hashOf(text: string): number {
  let hash = 0
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash, 31) + text.charCodeAt(at)
  return hash >>> 0
}
