import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs'

/** Syncs the write-ahead log of a SQLite file. */
export interface LogSync {
  /**
   * Makes all commits so far, of every connection, survive a power loss. Throws or rejects with the error of the disk.
   */
  sync: () => void | Promise<void>
  close: () => void
}

/**
 * Longer syncs run in another thread. For shorter ones, the handover would block this thread longer than the sync
 * itself.
 */
const maxBlockingMs = 1
/** Number of recent syncs that the moving average covers, approximately. */
const averagedOver = 8

/**
 * Creates the `LogSync` of a SQLite file. SQLite itself would sync the log inside COMMIT, which blocks this thread and
 * holds the lock until the disk is done. The log exists after the first commit, for as long as a connection is open.
 * Closing a descriptor of a file releases the process's locks on it (POSIX fcntl), but SQLite never locks the log.
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
