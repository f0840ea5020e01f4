import type { Snapshot } from './snapshot.ts'

/** Opens a snapshot of `postgres://…`, or of a SQLite file given as a `file:` URL or path. */
export async function openSnapshot(url: string): Promise<Snapshot> {
  // Loaded on demand: a thread loads at most one engine's client.
  if (/^postgres(ql)?:/.test(url)) return (await import('../postgres/snapshot.ts')).postgresSnapshot(url)
  return (await import('../sqlite/snapshot.ts')).sqliteSnapshot(url.replace(/^(sqlite|file):(\/\/(?=\/))?/, ''))
}
