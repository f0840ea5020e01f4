import { closeSync, existsSync, openSync } from 'node:fs'

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
