import { isDamage } from './damage.ts'
import type { SqliteHandle } from './driver.ts'

/** A read transaction shared by all reads in one event loop iteration. */
export interface SharedReads {
  begin: () => void
  /**
   * Ends the shared read transaction. Call this before acknowledging a write, so that the client's next read sees it.
   */
  end: () => void
  /** Runs `detect` if it has not run since the iteration began or the transaction ended. */
  look: () => void
}

/**
 * Lets all reads in one event loop iteration share a transaction; otherwise each read would lock and unlock the file.
 * `detect` runs before the transaction, so that the data read in it is at least as new as what `detect` found.
 */
export function sharedReads(handle: SqliteHandle, detect: () => void): SharedReads {
  let isOpen = false
  let willEnd = false
  let hasLooked = false
  const end = () => {
    hasLooked = false
    if (!isOpen) return
    isOpen = false
    if (handle.db.isOpen) endRead(handle)
  }
  const endSoon = () => {
    if (willEnd) return
    willEnd = true
    setImmediate(() => {
      willEnd = false
      end()
    })
  }
  const look = () => {
    if (hasLooked) return
    hasLooked = true
    endSoon()
    detect()
  }
  const begin = () => {
    if (isOpen) return
    look()
    isOpen = true
    handle.statement('begin').run.run()
  }
  return { begin, end, look }
}

/**
 * Ends a read transaction. COMMIT also fails after a damaged page or an I/O error, which the read has already reported.
 */
function endRead({ db, statement }: SqliteHandle): void {
  try {
    statement('commit').run.run()
  } catch (error) {
    if (!isDamage(error) && db.isTransaction) throw error
    if (db.isTransaction) db.exec('rollback')
  }
}
