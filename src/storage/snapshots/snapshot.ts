import type { LongRead } from './long-read.ts'

/** Whole records of a CSV file (RFC 4180) and how many rows they are; bytes stay until the next block is asked for. */
export interface CsvBlock {
  rows: number
  records: Uint8Array | string
}

/** A read-only view of one moment of a database, on a connection of its own; made for long reads in a thread. */
export interface Snapshot {
  /** Compiles every statement of a read without running it; rejects with the database's own error when one is wrong. */
  prepare: (read: LongRead) => Promise<void>
  /** How many rows a read has. */
  count: (read: LongRead) => Promise<number>
  /** The rows in order, as arrays of cells, page by page; the next page is read when it is asked for. */
  pages: (read: LongRead) => AsyncIterable<unknown[][]>
  /**
   * The rows in order as records of CSV, which the database writes itself: null is an empty field, and text that
   * spreadsheets take for a formula starts with `'`. Pages that it might write otherwise come as rows. Undefined where
   * it would not write them so at all.
   */
  csv?: (read: LongRead) => AsyncIterable<CsvBlock | unknown[][]> | undefined
  close: () => Promise<void>
}
