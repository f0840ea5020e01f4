import type { StatementSync } from 'node:sqlite'
import type { ChangeTracker } from '../database.ts'
import type { ThreadLock } from '../thread-lock.ts'
import { type ChangeNumbers, changeNumbers } from './change-numbers.ts'
import { nothingRecorded, type RecorderOf, recorderOf } from './change-recorder.ts'
import type { SqliteHandle } from './driver.ts'

/** Numbers the transactions, and stores for each table and row which one may have changed it last. */
export interface ChangeLog extends ChangeTracker {
  recorderOf: RecorderOf
  /** Must be called at the beginning of each transaction. */
  began: () => void
  /** Must be called after each commit, to publish what the transaction changed. */
  committed: () => void
  rolledBack: () => void
  /** Checks whether another process has committed anything. If so, everything counts as changed. */
  detect: () => void
}

type Lock = Pick<ThreadLock, 'tryLock' | 'unlock'>

export interface ChangeLogOptions {
  /** Returns the `data_version` of the writing connection. Only commits on other connections change it. */
  dataVersion: () => number
  /** The commit count stored in the file: `begun` reads it in the open transaction, `last` after the last commit. */
  commits: { begun: () => number; set: (commits: number) => void; last: () => number }
  /** Called before each number is returned, to run `detect` at most once per iteration of the event loop. */
  look: () => void
  /** State shared by the threads that write to the file; null if only this thread writes. */
  shared: { memory: SharedArrayBuffer; lock: Lock } | null
}

/**
 * Creates the log of the changes that the threads of this process make.
 *
 * Each commit increments a count in the file, so that threads can distinguish their own commits from commits by other
 * processes, such as commands. A thread that writes alone does not need the count, because `data_version` changes only
 * if another process commits.
 */
export function changeLog({ dataVersion, commits, look, shared }: ChangeLogOptions): ChangeLog {
  const numbers = changeNumbers(shared?.memory)
  let [seen, known, next] = [0, Number.NaN, 0]
  /** True if another thread may have committed changes that do not have a number yet. */
  let isUncertain = false
  let recorded = nothingRecorded()
  const detect = () => {
    const now = dataVersion()
    isUncertain = false
    if (now !== known && shared) isUncertain = !addUnknown(numbers, commits.last, shared.lock)
    else if (now !== known && !Number.isNaN(known)) numbers.addUnknown()
    if (!isUncertain) known = now
    // Set before any rows are read, so that every later commit has a higher number.
    seen = numbers.last()
  }
  const certain = (number: number) => (isUncertain ? Number.POSITIVE_INFINITY : number)
  return {
    last: () => {
      look()
      return seen
    },
    lastOf: (table) => {
      look()
      return certain(numbers.lastOf(table))
    },
    lastOfRow: (table, id) => {
      look()
      return certain(numbers.lastOfRow(table, id))
    },
    pending: () => numbers.last() + 1,
    recorderOf: (db, sql, statement) => recorderOf(db, sql, statement, () => recorded),
    began: () => {
      const before = commits.begun()
      if (shared && before !== numbers.commits()) numbers.addUnknown()
      next = (before + 1) & 0x7f_ff_ff_ff
      commits.set(next)
    },
    committed: () => {
      numbers.add(recorded)
      numbers.setCommits(next)
      recorded = nothingRecorded()
    },
    rolledBack: () => {
      recorded = nothingRecorded()
    },
    detect,
  }
}

/**
 * Records commits by other processes as a change to everything. Returns false while another thread is writing, because
 * that thread's commits cannot be distinguished from those of other processes.
 */
function addUnknown(numbers: ChangeNumbers, commits: () => number, lock: Lock): boolean {
  if (commits() === numbers.commits()) return true
  if (!lock.tryLock()) return false
  const now = commits()
  if (now !== numbers.commits()) {
    numbers.addUnknown()
    numbers.setCommits(now)
  }
  lock.unlock()
  return true
}

/** Reads and sets the counters that reveal changes to the file. */
export const countsOf = (handles: () => Record<'writer' | 'reader', SqliteHandle>) => ({
  dataVersion: pragma(() => handles().writer, 'data_version'),
  commits: {
    begun: pragma(() => handles().writer, 'user_version'),
    last: pragma(() => handles().reader, 'user_version'),
    set: (commits: number) => handles().writer.db.exec(`pragma user_version = ${commits}`),
  },
})

/** Creates the reader of a pragma's number. It keeps the statement, because it may run in each event loop iteration. */
function pragma(handle: () => SqliteHandle, name: 'data_version' | 'user_version'): () => number {
  let run: StatementSync | undefined
  return () => {
    run ??= handle().statement(`pragma ${name}`).run
    return (run.get() as unknown as [number])[0]
  }
}
