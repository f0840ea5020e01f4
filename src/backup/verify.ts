import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Head, Manifest } from './archive/manifest.ts'
import { readArchive } from './archive/read.ts'
import type { BackupProgress } from './create.ts'
import { checkSqlite } from './database/sqlite.ts'
import { BackupRefused } from './errors.ts'

/** A backup in a store. */
export interface StoredBackup {
  sizeBytes: number
  open: (signal: AbortSignal) => Promise<AsyncIterable<Uint8Array>>
}

export interface OpenBackupOptions {
  /** A path, or a backup in a store. */
  file: string | StoredBackup
  /** Called if the backup is encrypted. */
  passphrase: () => Promise<string>
  signal: AbortSignal
  onProgress: (progress: BackupProgress) => void
}

export type OpenedBackup = Manifest & { sizeBytes: number; isEncrypted: boolean }

/** Callbacks for the contents of an archive. */
export interface Extraction {
  onHead?: (head: Head) => Promise<void>
  /** Returns the path to write a file to; null to check only the file's digest. */
  pathOf: (name: string) => string | null
}

/**
 * Reads a backup to its end, checks every digest, and extracts files. Throws `BackupBroken` if the backup is incomplete
 * or was altered.
 */
export async function openBackup(options: OpenBackupOptions, { onHead, pathOf }: Extraction): Promise<OpenedBackup> {
  const { file, passphrase, signal, onProgress } = options
  const { sizeBytes, open } = typeof file === 'string' ? await storedIn(file) : file
  async function* bytes() {
    let doneBytes = 0
    for await (const chunk of await open(signal)) {
      yield chunk
      doneBytes += chunk.length
      onProgress({ step: 'archive', doneBytes, totalBytes: sizeBytes })
    }
  }
  const onFile = async (name: string, content: AsyncIterable<Uint8Array>) => {
    const path = pathOf(name)
    if (path !== null) return pipeline(content, createWriteStream(path, { mode: 0o600, flags: 'wx', flush: true }))
    for await (const _ of content) signal.throwIfAborted()
  }
  const manifest = await readArchive(bytes(), { passphrase, onFile, ...(onHead && { onHead }) })
  return { ...manifest, sizeBytes }
}

async function storedIn(file: string): Promise<StoredBackup> {
  const { size } = await stat(file).catch((error) => {
    if (error.code === 'ENOENT') throw new BackupRefused(`There is no file ${file}`)
    throw error
  })
  const open = async (signal: AbortSignal) => createReadStream(file, { signal, highWaterMark: 262_144 })
  return { sizeBytes: size, open }
}

/** Returns true for the name of the entry that contains the database. */
export const isDatabase = (name: string): boolean => name.startsWith('database.')

/** Throws `BackupBroken` if the database extracted to `file` is damaged. */
export async function checkDatabase({ postgres }: Manifest, file: string, signal: AbortSignal): Promise<void> {
  if (postgres === null) return checkSqlite(file)
  await (await import('./database/postgres.ts')).checkDump(file, postgres.dumpMajor, signal)
}

const temporaryFolder = () => mkdtemp(join(tmpdir(), 'plinth-verify-'))

/**
 * Checks a backup completely: verifies every digest, extracts the database to the folder that `newFolder` creates, and
 * checks it.
 */
export async function verifyBackup(options: OpenBackupOptions, newFolder = temporaryFolder): Promise<OpenedBackup> {
  const folder = await newFolder()
  const file = join(folder, 'database')
  try {
    const opened = await openBackup(options, { pathOf: (name) => (isDatabase(name) ? file : null) })
    await checkDatabase(opened, file, options.signal)
    return opened
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
