import { folderResults } from './folder.ts'
import type { ResultStore } from './store.ts'

/** Returns the folder of a `file:` URL; null for a bucket URL. */
export const resultsFolder = (url: string): string | null =>
  url.startsWith('s3:') ? null : url.replace(/^file:(\/\/(?=\/))?/, '')

/** Opens the result store at `file:/folder` or `s3://bucket/prefix`. */
export async function openResults(url: string): Promise<ResultStore> {
  const folder = resultsFolder(url)
  if (folder !== null) return folderResults(folder)
  // Loaded on demand, because the S3 client is by far the largest package.
  return (await import('./s3.ts')).s3Results(new URL(url))
}
