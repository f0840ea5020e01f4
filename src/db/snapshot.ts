import type { LongRead } from './long-read.ts'

/** A read-only view of one moment of a database, on a connection of its own; made for long reads in a thread. */
export interface Snapshot {
  /** How many rows a read has. */
  count: (read: LongRead) => Promise<number>
  /** The rows in order, as arrays of cells, page by page; the next page is read when it is asked for. */
  pages: (read: LongRead) => AsyncIterable<unknown[][]>
  close: () => Promise<void>
}

/** Opens a snapshot of `postgres://…`, or of a SQLite file given as `file:` URL or path. */
export async function openSnapshot(url: string): Promise<Snapshot> {
  // Loaded where they are used: a thread carries one engine's client at most.
  if (/^postgres(ql)?:/.test(url)) return (await import('./postgres-snapshot.ts')).postgresSnapshot(url)
  return (await import('./sqlite-snapshot.ts')).sqliteSnapshot(url.replace(/^(sqlite|file):(\/\/(?=\/))?/, ''))
}
