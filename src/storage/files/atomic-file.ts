import { randomUUID } from 'node:crypto'
import { closeSync, existsSync, linkSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'

/** Writes and syncs a file atomically. With `replace: false` an existing file stays, so the first writer wins. */
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
 * Creates an empty file (0600) if there is none. An existing file is not even opened: closing it would release the locks
 * that SQLite holds on it for this process (POSIX fcntl).
 */
export function createPrivateFile(path: string): void {
  if (existsSync(path)) return
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    // Two processes may create it at the same time; both then use the same file.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
