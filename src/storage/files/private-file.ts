import { closeSync, existsSync, openSync } from 'node:fs'

/**
 * Makes an empty file (0600) where none is. One that is there is not even opened: to close it would release the locks that
 * SQLite holds on it for this process (POSIX fcntl).
 */
export function createPrivateFile(path: string): void {
  if (existsSync(path)) return
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    // Two processes may create it at once: both then use the same file.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
