import { folderResults } from './folder.ts'
import type { ResultStore } from './store.ts'

/** Opens the store that `file:/folder` or `s3://bucket/prefix` names. */
export async function openResults(url: string): Promise<ResultStore> {
  if (!url.startsWith('s3:')) return folderResults(url.replace(/^file:(\/\/(?=\/))?/, ''))
  // Loaded where it is used: the client is by far the largest of all packages.
  return (await import('./s3.ts')).s3Results(new URL(url))
}
