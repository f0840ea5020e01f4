import { existsSync } from 'node:fs'
import { link, open, rename, rm } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { fileWriter } from '../files/folder.ts'
import type { ResultWriter } from '../files/store.ts'
import { BackupRefused } from './errors.ts'

/** Throws `BackupRefused` if the file exists, or if its folder does not. */
export function refuseUnwritable(file: string): void {
  if (existsSync(file)) throw existing(file)
  const folder = dirname(resolve(file))
  if (!existsSync(folder)) throw new BackupRefused(`The folder ${folder} does not exist`)
}

/** Creates a file (mode 0600) that gets its name only when it is complete and synced. */
export async function newBackupFile(file: string): Promise<ResultWriter> {
  const path = resolve(file)
  const folder = dirname(path)
  refuseUnwritable(file)
  const temporary = join(folder, `.${basename(path)}.${process.pid}.part`)
  const place = (from: string, to: string) => placeNew(from, to, file)
  return fileWriter(await open(temporary, 'wx', 0o600), { temporary, path, folder, place })
}

const existing = (file: string) => new BackupRefused(`${file} exists and is not overwritten; choose another name`)

/** Renames a file, unless a file with the new name exists. `file` is the name to use in error messages. */
export async function placeNew(from: string, to: string, file = to): Promise<void> {
  try {
    await link(from, to)
  } catch {
    // File systems that do not support hard links fail with various errors, so all errors are handled alike.
    if (existsSync(to)) throw existing(file)
    return rename(from, to)
  }
  await rm(from)
}
