import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Head, Manifest } from './archive/manifest.ts'
import { readArchive } from './archive/read.ts'
import type { Progress } from './create.ts'
import { checkSqlite } from './database/sqlite.ts'
import { BackupRefused } from './errors.ts'

export interface OpenOptions {
  file: string
  /** Called if the backup is encrypted. */
  passphrase: () => Promise<string>
  signal: AbortSignal
  onProgress: (progress: Progress) => void
}

export type Opened = Manifest & { sizeBytes: number; isEncrypted: boolean }

/** Decides where the files of an archive are written while it is read. */
export interface Extraction {
  onHead?: (head: Head) => Promise<void>
  /** Returns the path to write a file to; null to check only the file's digest. */
  pathOf: (name: string) => string | null
}

/**
 * Reads a backup to its end, checks every digest, and extracts files. Throws `BackupBroken` if a digest does not match.
 */
export async function openBackup(options: OpenOptions, { onHead, pathOf }: Extraction): Promise<Opened> {
  const { file, passphrase, signal, onProgress } = options
  const { size } = await stat(file).catch((error) => {
    if (error.code === 'ENOENT') throw new BackupRefused(`There is no file ${file}`)
    throw error
  })
  async function* bytes() {
    let doneBytes = 0
    for await (const chunk of createReadStream(file, { signal, highWaterMark: 262_144 })) {
      yield chunk as Uint8Array
      doneBytes += chunk.length
      onProgress({ step: 'archive', doneBytes, totalBytes: size })
    }
  }
  const onFile = async (name: string, content: AsyncIterable<Uint8Array>) => {
    const path = pathOf(name)
    if (path !== null) return pipeline(content, createWriteStream(path, { mode: 0o600, flags: 'wx', flush: true }))
    for await (const _ of content) signal.throwIfAborted()
  }
  const manifest = await readArchive(bytes(), { passphrase, onFile, ...(onHead && { onHead }) })
  return { ...manifest, sizeBytes: size }
}

/** True for the name of the entry that contains the database. */
export const isDatabase = (name: string): boolean => name.startsWith('database.')

/** Throws `BackupBroken` if the database extracted to `file` is damaged. */
export async function checkDatabase({ postgres }: Manifest, file: string, signal: AbortSignal): Promise<void> {
  if (postgres === null) return checkSqlite(file)
  await (await import('./database/postgres.ts')).checkDump(file, postgres.dumpMajor, signal)
}

/**
 * Checks a backup completely: every digest, and the database, which is extracted to a temporary folder for this
 * purpose.
 */
export async function verifyBackup(options: OpenOptions): Promise<Opened> {
  const folder = await mkdtemp(join(tmpdir(), 'plinth-verify-'))
  const file = join(folder, 'database')
  try {
    const opened = await openBackup(options, { pathOf: (name) => (isDatabase(name) ? file : null) })
    await checkDatabase(opened, file, options.signal)
    return opened
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
