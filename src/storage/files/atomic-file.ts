import { randomUUID } from 'node:crypto'
import { closeSync, existsSync, linkSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'

/** Writes and syncs a file atomically. With `replace: false`, an existing file is kept, so the first writer wins. */
export function writeFileAtomically(file: string, text: string, options: { mode: number; replace: boolean }): void {
  const temporary = `${file}.${randomUUID()}.tmp`
  try {
    writeFileSync(temporary, text, { mode: options.mode, flag: 'wx', flush: true })
    if (options.replace) renameSync(temporary, file)
    else linkIfAbsent(temporary, file)
  } finally {
    rmSync(temporary, { force: true })
  }
}

function linkIfAbsent(from: string, to: string): void {
  try {
    linkSync(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/**
 * Creates an empty file (mode 0600) if it does not exist. Does not open an existing file, because closing it would
 * release SQLite's locks on it in this process (POSIX fcntl).
 */
export function createPrivateFile(path: string): void {
  if (existsSync(path)) return
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    // Another process may create the file at the same time; both processes then use that file.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
