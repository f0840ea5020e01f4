import { createReadStream, createWriteStream } from 'node:fs'
import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { isMissing, type ResultStore } from '../files/store.ts'
import type { Entry } from './archive/manifest.ts'
import type { ArchiveWriter } from './archive/write.ts'
import type { ExpectedResult } from './database/copy.ts'

/** Passes bytes on and counts them. */
export type CountBytes = (bytes: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>

interface AddResults {
  /** Called only if the backup needs results, because opening the store creates its folder. */
  open: () => Promise<ResultStore>
  /** A folder for copies, one result at a time. The copies are needed because a tar entry starts with its size. */
  folder: string
  expected: readonly ExpectedResult[]
  counted: CountBytes
}

/**
 * Adds the results that the store still has. A result is added unchanged even if its size or digest differs from that
 * in the database, so that a single damaged file does not prevent backups.
 */
export async function addResults(archive: ArchiveWriter, { open, folder, expected, counted }: AddResults) {
  const store = expected.length > 0 ? await open() : null
  const entries: Entry[] = []
  const missingResults: string[] = []
  const damagedResults: string[] = []
  for (const { key, sizeBytes, sha256 } of expected) {
    const file = join(folder, key)
    if (store === null || !(await copied(store, key, file))) {
      missingResults.push(key)
      continue
    }
    const { size } = await stat(file)
    const entry = await archive.add(`results/${key}`, size, counted(createReadStream(file)))
    await rm(file)
    entries.push(entry)
    const isWhole = size === sizeBytes && entry.sha256 === Buffer.from(sha256, 'base64').toString('hex')
    if (!isWhole) damagedResults.push(key)
  }
  return { entries, missingResults, damagedResults }
}

/** Copies a result to a file; returns false if the store does not have it. */
async function copied(store: ResultStore, key: string, file: string): Promise<boolean> {
  try {
    await pipeline(await store.open(key), createWriteStream(file, { mode: 0o600 }))
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}
