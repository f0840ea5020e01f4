import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs'

/** Syncs the write-ahead log of a SQLite file. */
export interface LogSync {
  /**
   * Makes all commits so far, of every connection, survive a power loss. Throws or rejects with the error of the disk.
   */
  sync: () => void | Promise<void>
  close: () => void
}

/** Longer syncs are handed to another thread; to hand over a shorter one takes this thread longer than the sync. */
const maxBlockingMs = 1
/** How many syncs the average duration comprises. */
const averagedOver = 8

/**
 * Returns the sync of a file's log. SQLite itself would sync the log inside COMMIT, and block this thread and the lock
 * for that time, however slow the disk is. The log exists after the first commit, and as long as a connection is open.
 * Closing a descriptor of a file releases the process's locks on it (POSIX fcntl), but SQLite locks other files.
 */
export function logSync(path: string, monotonic = () => performance.now()): LogSync {
  let log: number | undefined
  let averageMs = 0
  return {
    sync: () => {
      log ??= openSync(`${path}-wal`, 'r+')
      const file = log
      const beganMs = monotonic()
      const measure = () => {
        averageMs += (monotonic() - beganMs - averageMs) / averagedOver
      }
      if (averageMs <= maxBlockingMs) {
        fdatasyncSync(file)
        return measure()
      }
      return new Promise((resolve, reject) => {
        fdatasync(file, (error) => {
          measure()
          if (error) reject(error)
          else resolve()
        })
      })
    },
    close: () => {
      if (log !== undefined) closeSync(log)
      log = undefined
    },
  }
}
