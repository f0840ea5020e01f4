import type { LongRead } from './long-read.ts'

/** Complete CSV records (RFC 4180) and their number; the bytes are valid until the next block is requested. */
export interface CsvBlock {
  rows: number
  records: Uint8Array | string
}

/** A read-only snapshot of a database on its own connection; used for long reads in a thread. */
export interface Snapshot {
  /** Compiles every statement of a read without running it; rejects with the database's error if one is invalid. */
  prepare: (read: LongRead) => Promise<void>
  /** The number of rows of a read. */
  count: (read: LongRead) => Promise<number>
  /** The rows in order, as arrays of cells; each page is read when it is requested. */
  pages: (read: LongRead) => AsyncIterable<unknown[][]>
  /**
   * The rows in order, as CSV records written by the database: null is an empty field, and text that spreadsheets would
   * read as a formula is prefixed with `'`. Pages whose records might differ from those of the CSV format come as rows.
   * Undefined if the database cannot write such records.
   */
  csv?: (read: LongRead) => AsyncIterable<CsvBlock | unknown[][]> | undefined
  close: () => Promise<void>
}
