import type { CellType } from '../engine.ts'
import type { LongRead } from './long-read.ts'

/** Complete CSV records (RFC 4180) and their count; the bytes are valid only until the next block is requested. */
export interface CsvBlock {
  rows: number
  records: Uint8Array | string
}

/** A read-only database snapshot on its own connection, used for long reads in a thread. */
export interface Snapshot {
  /** Compiles every statement of a read without running it; rejects with the database's error if one is invalid. */
  prepare: (read: LongRead) => Promise<void>
  /** Counts the rows that a read would return. */
  count: (read: LongRead) => Promise<number>
  /** Yields the rows in order, as arrays of cells; reads each page only when it is requested. */
  pages: (read: LongRead) => AsyncIterable<unknown[][]>
  /**
   * Yields the rows in order, as CSV records written by the database: null is an empty field, and text that spreadsheet
   * programs would treat as a formula is prefixed with `'`. A page is yielded as rows if its records might differ from
   * the CSV that the service writes. Returns undefined if the database cannot write such records.
   */
  csv?: (read: LongRead) => AsyncIterable<CsvBlock | unknown[][]> | undefined
  close: () => Promise<void>
}

/**
 * Thrown for a sum that a report column cannot contain: beyond ±(2⁵³ − 1) for integers, beyond the largest double for
 * numbers.
 */
export class SumOutOfRange extends Error {
  override name = 'SumOutOfRange'
}

/**
 * Converts the cells of integer and number columns to numbers, in place; engines may return them as text to keep every
 * digit. Throws `SumOutOfRange`.
 */
export function readAggregates(rows: unknown[][], types: readonly CellType[]): unknown[][] {
  for (const row of rows) {
    for (const [at, type] of types.entries()) {
      if (row[at] === null || (type !== 'integer' && type !== 'number')) continue
      const value = Number(row[at])
      if (type === 'integer' ? !Number.isSafeInteger(value) : !Number.isFinite(value)) throw new SumOutOfRange()
      row[at] = value
    }
  }
  return rows
}
