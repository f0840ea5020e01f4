import type { Snapshot } from './snapshot.ts'

/** Opens a snapshot of `postgres://…`, or of a SQLite file given as `file:` URL or path. */
export async function openSnapshot(url: string): Promise<Snapshot> {
  // Loaded where they are used: a thread carries one engine's client at most.
  if (/^postgres(ql)?:/.test(url)) return (await import('../postgres/snapshot.ts')).postgresSnapshot(url)
  return (await import('../sqlite/snapshot.ts')).sqliteSnapshot(url.replace(/^(sqlite|file):(\/\/(?=\/))?/, ''))
}
