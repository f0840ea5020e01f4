import { createReadStream, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { openResults } from '../files/open.ts'
import type { ResultWriter } from '../files/store.ts'
import { fingerprintOf } from '../storage/encryption.ts'
import { sqlitePath } from '../storage/sqlite/path.ts'
import { masterKeyFile } from '../stores.ts'
import type { Encryption } from './archive/age.ts'
import { archiveFormat, type Entry, type Head, headName, type Manifest, manifestName } from './archive/manifest.ts'
import { type ArchiveWriter, archiveWriter } from './archive/write.ts'
import type { CopyOptions, DatabaseCopy } from './database/copy.ts'
import { BackupRefused } from './errors.ts'
import { type BackupSource, existingKeyFiles, masterKeyOf } from './place.ts'
import { addResults, type CountBytes } from './results.ts'

/** The progress of a backup or a restore; `totalBytes` is null if the total is not known. */
export interface BackupProgress {
  step: 'database' | 'archive'
  doneBytes: number
  totalBytes: number | null
}

export interface CreateOptions {
  place: BackupSource
  /** The release of the running program. */
  version: string
  passphrase: string | null
  workFactor?: Encryption['workFactor']
  /** If false, the backup omits the master key and the private keys of certificates. */
  withKeys: boolean
  now: () => number
  random: (size: number) => Uint8Array
  signal: AbortSignal
  onProgress: (progress: BackupProgress) => void
}

/** `sha256` is the digest of the file, in base64. */
export type Created = Manifest & { sizeBytes: number; sha256: string; isEncrypted: boolean }

/**
 * Writes a backup of a service, which may be running. Copies the database before the results, so that every result that
 * the copy refers to is still in the result store, unless it expires in the meantime. On failure, discards what was
 * written.
 */
export async function createBackup(options: CreateOptions, writer: ResultWriter): Promise<Created> {
  const { place, passphrase, workFactor, random, signal, onProgress } = options
  let folder: string | undefined
  let archive: ArchiveWriter | undefined
  try {
    folder = await stagingFolder(place.dataDir, options.now())
    const report: CopyOptions['onProgress'] = (doneBytes, totalBytes) =>
      onProgress({ step: 'database', doneBytes, totalBytes })
    const keyBefore = masterKeyOf(place)
    const copy = await copyDatabase(options, { folder, signal, onProgress: report })
    const masterKey = keyOf(copy, [keyBefore, masterKeyOf(place)])
    archive = archiveWriter({
      ...{ write: writer.write, passphrase, workFactor, random, signal, mtime: new Date(copy.takenAt) },
    })
    const manifest = await fill(options, { copy, masterKey }, folder, archive)
    const { sizeBytes, sha256 } = await writer.finish()
    return { ...manifest, sizeBytes, sha256, isEncrypted: passphrase !== null }
  } catch (error) {
    await archive?.abort(error)
    await writer.discard()
    throw error
  } finally {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true })
  }
}

const stagingPrefix = '.backup-'
const staleMs = 86_400_000

/**
 * Creates a folder for copies in the data folder. Also removes such folders that are more than a day old, because the
 * processes that created them were killed.
 */
export async function stagingFolder(dataDir: string, nowMs: number): Promise<string> {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  for (const name of await readdir(dataDir)) {
    if (!name.startsWith(stagingPrefix)) continue
    const { mtimeMs } = await stat(join(dataDir, name))
    if (mtimeMs < nowMs - staleMs) await rm(join(dataDir, name), { recursive: true, force: true })
  }
  return mkdtemp(join(dataDir, stagingPrefix))
}

/** Throws `BackupRefused` if the database is a SQLite file that does not exist. */
export function refuseMissingDatabase({ databaseUrl }: BackupSource): void {
  const path = sqlitePath(databaseUrl)
  if (path !== null && !existsSync(path))
    throw new BackupRefused(`There is no database at ${path}, so there is nothing to back up`)
}

async function copyDatabase({ place, now }: CreateOptions, options: CopyOptions): Promise<DatabaseCopy> {
  const path = sqlitePath(place.databaseUrl)
  if (path !== null) return (await import('./database/sqlite.ts')).copySqlite(path, now, options)
  return (await import('./database/postgres.ts')).copyPostgres(place.databaseUrl, options)
}

/** A copy of the database, and the master key that opens it; undefined if there is no key yet. */
interface Copied {
  copy: DatabaseCopy
  masterKey: Buffer | undefined
}

/**
 * Returns the key that opens the copy. The master key may have been replaced during the copy, so there are several
 * candidates. Throws `BackupRefused` if none of them opens it.
 */
function keyOf({ masterKeys }: DatabaseCopy, keys: readonly (Buffer | undefined)[]): Buffer | undefined {
  const existing = keys.filter((key) => key !== undefined)
  if (masterKeys.length === 0 || existing.length === 0) return existing.at(-1)
  const found = existing.find((key) => masterKeys.includes(fingerprintOf(key)))
  if (found === undefined) {
    throw new BackupRefused(
      `The master key of this process does not open the database, whose master key has the fingerprint ${masterKeys}: ` +
        'set PLINTH_MASTER_KEY to that key',
    )
  }
  return found
}

async function fill(
  options: CreateOptions,
  { copy, masterKey }: Copied,
  folder: string,
  archive: ArchiveWriter,
): Promise<Manifest> {
  const head = headOf(options, { copy, masterKey })
  const { size } = await stat(copy.file)
  const totalBytes = copy.results.reduce((sum, { sizeBytes }) => sum + sizeBytes, size)
  const counted = counter((doneBytes) => options.onProgress({ step: 'archive', doneBytes, totalBytes }))
  const entries: Entry[] = [await addJson(archive, headName, head)]
  const extension = copy.engine === 'sqlite' ? 'db' : 'dump'
  entries.push(await archive.add(`database.${extension}`, size, counted(createReadStream(copy.file))))
  await rm(copy.file)
  const open = () => openResults(options.place.resultsUrl)
  const results = await addResults(archive, { open, folder, expected: copy.results, counted })
  entries.push(...results.entries)
  for (const { name, path } of options.withKeys ? existingKeyFiles(options.place) : []) {
    const isMasterKey = name === masterKeyFile && masterKey !== undefined
    const bytes = isMasterKey ? Buffer.from(masterKey.toString('base64')) : readFileSync(path)
    entries.push(await addBytes(archive, `keys/${name}`, bytes))
  }
  const { missingResults, damagedResults } = results
  const manifest: Manifest = { ...head, tables: copy.tables, entries, missingResults, damagedResults }
  await addJson(archive, manifestName, manifest)
  await archive.finish()
  return manifest
}

function headOf({ place, version, withKeys }: CreateOptions, { copy, masterKey }: Copied): Head {
  const { engine, takenAt, migrations, resources, postgres } = copy
  const fingerprint = masterKey === undefined ? null : fingerprintOf(masterKey)
  const isIncluded = withKeys && place.masterKey === null
  return {
    ...{ format: archiveFormat, plinth: version, engine, takenAt: new Date(takenAt).toISOString() },
    ...{ migrations, resources, postgres },
    masterKey: fingerprint === null ? null : { isIncluded, fingerprint },
  }
}

/**
 * Returns a function that passes chunks through. After each chunk, it reports the total number of bytes in all streams
 * so far.
 */
function counter(onBytes: (doneBytes: number) => void): CountBytes {
  let doneBytes = 0
  return async function* counted(bytes) {
    for await (const chunk of bytes) {
      yield chunk
      doneBytes += chunk.length
      onBytes(doneBytes)
    }
  }
}

const addJson = (archive: ArchiveWriter, name: string, value: unknown) =>
  addBytes(archive, name, Buffer.from(`${JSON.stringify(value, null, 2)}\n`))

const addBytes = (archive: ArchiveWriter, name: string, bytes: Buffer) =>
  archive.add(name, bytes.length, Readable.from([bytes]))
