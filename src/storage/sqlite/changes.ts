import type { Changes } from '../database.ts'
import { type ChangeNumbers, changeNumbers } from './change-numbers.ts'
import { nothingRecorded, type RecorderOf, recorderOf } from './change-recorder.ts'
import type { WriteLock } from './write-lock.ts'

/** Numbers the transactions, and holds for each table and row the last one that may have changed it. */
export interface ChangeLog extends Changes {
  recorderOf: RecorderOf
  /** Call at the beginning of each transaction. */
  began: () => void
  /** Ends the transaction: what it changed is changed from now on. */
  committed: () => void
  rolledBack: () => void
  /** Finds out whether another process has committed anything. If so, everything may have changed. */
  detect: () => void
}

type Lock = Pick<WriteLock, 'tryLock' | 'unlock'>

export interface ChangeLogOptions {
  /** Returns the `data_version` of the connection that writes. Only commits of other connections change it. */
  dataVersion: () => number
  /** The count of commits in the file: in the transaction that has begun, or after the last commit. */
  commits: { begun: () => number; set: (commits: number) => void; last: () => number }
  /** Called before each answer, to run `detect` once per iteration of the event loop. */
  look: () => void
  /** What the threads share that write to the file; null if this thread writes alone. */
  shared: { memory: SharedArrayBuffer; lock: Lock } | null
}

/**
 * Creates the log of the changes that the threads of this process make.
 *
 * Each commit increments a count in the file. By it, threads distinguish their own commits from those of other processes,
 * such as commands. A thread that writes alone does not need it: any change of `data_version` is that of another process.
 */
export function changeLog({ dataVersion, commits, look, shared }: ChangeLogOptions): ChangeLog {
  const numbers = changeNumbers(shared?.memory)
  let [seen, known, next] = [0, Number.NaN, 0]
  /** Whether another thread may have committed changes that have no numbers yet. */
  let isUncertain = false
  let recorded = nothingRecorded()
  const detect = () => {
    const now = dataVersion()
    isUncertain = false
    if (now !== known && shared) isUncertain = !addUnknown(numbers, commits.last, shared.lock)
    else if (now !== known && !Number.isNaN(known)) numbers.addUnknown()
    if (!isUncertain) known = now
    // Before the rows are read: what is committed from now on has a higher number.
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
 * Adds the commits of other processes to the numbers. Returns false if another thread is writing, so that its commits cannot
 * be told from others.
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
