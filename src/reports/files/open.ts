import { folderResults } from './folder.ts'
import type { ResultStore } from './store.ts'

/** The folder that a `file:` URL names; null for a bucket. */
export const resultsFolder = (url: string): string | null =>
  url.startsWith('s3:') ? null : url.replace(/^file:(\/\/(?=\/))?/, '')

/** Opens the store that `file:/folder` or `s3://bucket/prefix` names. */
export async function openResults(url: string): Promise<ResultStore> {
  const folder = resultsFolder(url)
  if (folder !== null) return folderResults(folder)
  // Loaded where it is used: the client is by far the largest of all packages.
  return (await import('./s3.ts')).s3Results(new URL(url))
}
