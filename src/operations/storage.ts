import { opendir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { backupsUrlOf } from '../config/backup.ts'
import type { Config } from '../config/config.ts'
import { databaseUrlOf, resultsUrlOf } from '../config/storage.ts'
import { resultsFolder } from '../files/open.ts'
import { spaces } from '../health/files.ts'
import { sqlitePath } from '../storage/sqlite/path.ts'
import type { TableSize } from '../storage/table-sizes.ts'

/** A file, folder or bucket that contains data. */
export interface StoredFiles {
  name: 'database' | 'write-ahead log' | 'text index' | 'results' | 'backups'
  /** The path, or the URL of a bucket. */
  place: string
  /** The size in bytes; absent for buckets. */
  bytes?: number
  files?: number
  /** Whether all files were measured; false if the folder has too many files. */
  complete?: boolean
}

/** The disk usage of this node: tables, files and file systems. */
export interface StorageReport {
  measuredAt: string
  engine: 'sqlite' | 'postgres'
  /** The size of all tables with their indexes; absent if it could not be measured in time. */
  tableBytes?: number
  /** The tables, largest first. */
  tables?: TableSize[]
  files: StoredFiles[]
  /** The file systems of the data folder, the database, the results and the backups. */
  disks: { contains: string[]; freeBytes: number; totalBytes: number }[]
}

export interface StorageOptions {
  config: Config
  dataDir: string
  /** Returns the sizes of the tables; null if they could not be measured in time. */
  tableSizes: () => Promise<TableSize[] | null>
  now: () => number
}

const maxFiles = 50_000

/** Measures tables, files and disks. The cost is bounded: at most 50,000 files of a folder are measured. */
export async function measureStorage({ config, dataDir, tableSizes, now }: StorageOptions): Promise<StorageReport> {
  const path = sqlitePath(databaseUrlOf(config.storage))
  const database = path === null ? [] : await sqliteFiles(path)
  const results = await folderSize('results', resultsUrlOf(config.storage))
  const backups = await folderSize('backups', backupsUrlOf(config.backup, config.storage))
  const tables = await tableSizes()
  const disks = await spaces({ config, dataDir })
  return {
    measuredAt: new Date(now()).toISOString(),
    engine: path === null ? 'postgres' : 'sqlite',
    ...(tables !== null && { tableBytes: tables.reduce((sum, { bytes }) => sum + bytes, 0), tables }),
    files: [...database, results, backups],
    disks: disks.map(({ name, ...space }) => ({ contains: name.split(', '), ...space })),
  }
}

async function sqliteFiles(path: string): Promise<StoredFiles[]> {
  const parts = [
    ['database', path],
    ['write-ahead log', `${path}-wal`],
    ['text index', `${path}-search`],
  ] as const
  return Promise.all(parts.map(async ([name, place]) => ({ name, place, bytes: await sizeOf(place) })))
}

/** Returns the size of a file; 0 if it does not exist. */
const sizeOf = (path: string) =>
  stat(path).then(
    ({ size }) => size,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return 0
      throw error
    },
  )

async function folderSize(name: StoredFiles['name'], url: string): Promise<StoredFiles> {
  const folder = resultsFolder(url)
  if (folder === null) return { name, place: url }
  let [bytes, files] = [0, 0]
  try {
    for await (const entry of await opendir(folder)) {
      if (!entry.isFile()) continue
      if (files === maxFiles) return { name, place: folder, bytes, files, complete: false }
      bytes += await sizeOf(join(folder, entry.name))
      files += 1
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  return { name, place: folder, bytes, files, complete: true }
}
