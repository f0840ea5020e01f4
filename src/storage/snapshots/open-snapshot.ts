import type { Snapshot } from './snapshot.ts'

/** Opens a snapshot of `postgres://…`, or of a SQLite file given as a `file:` URL or path. */
export async function openSnapshot(url: string): Promise<Snapshot> {
  // Imported on demand, so that a thread loads the client of one engine only.
  if (/^postgres(ql)?:/.test(url)) return (await import('../postgres/snapshot.ts')).postgresSnapshot(url)
  return (await import('../sqlite/snapshot.ts')).sqliteSnapshot(url.replace(/^(sqlite|file):(\/\/(?=\/))?/, ''))
}
