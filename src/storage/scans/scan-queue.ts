import type { SetTimer } from '../timer.ts'
import { ScanRefused, type ScanRequester } from './scan.ts'
import { scanTurns } from './scan-turns.ts'

export interface ScanQueueOptions {
  /** Maximum number of scans running at the same time, in total and per account. */
  running: number
  runningPerAccount: number
  /** Maximum number of waiting scans, in total and per account. */
  waiting: number
  waitingPerAccount: number
  /** Maximum time a scan may wait and run, in ms. */
  limitMs: number
  setTimer: SetTimer
}

/**
 * Runs `work` when it is the account's turn. At the time limit, rejects the caller's promise and aborts the signal
 * passed to `work`; the slot is released only when `work` has settled.
 */
export interface ScanQueue {
  run: <T>(requester: ScanRequester, work: (signal: AbortSignal) => Promise<T>) => Promise<T>
  /** Rejects all waiting, running and future scans; resolves when no more scans are running. */
  close: () => Promise<void>
}

/** A scan that is waiting or running. */
interface Entry {
  start: () => Promise<void>
  refuse: (reason: string) => void
}

const clientGone = 'The client closed the connection'
const closing = 'The database is closing'

export function scanQueue(options: ScanQueueOptions): ScanQueue {
  const schedule = scanTurns<Entry>(options.runningPerAccount)
  const pending = new Set<Entry>()
  const running = new Set<Promise<void>>()
  let closed = false

  const refusalFor = (account: string): string | undefined => {
    if (closed) return closing
    if (schedule.waiting() >= options.waiting) return 'Too many reads are already waiting'
    return schedule.waitingOf(account) < options.waitingPerAccount
      ? undefined
      : 'This account already has too many reads waiting'
  }
  const startDue = () => {
    while (running.size < options.running) {
      const due = schedule.next()
      if (due === undefined) return
      const ended = due.entry.start().finally(() => {
        running.delete(ended)
        schedule.ended(due.account)
        startDue()
      })
      running.add(ended)
    }
  }
  const join = (account: string, entry: Entry) => {
    const refusal = refusalFor(account)
    if (refusal !== undefined) return entry.refuse(refusal)
    schedule.join(account, entry)
    startDue()
  }
  return {
    run: (requester, work) => {
      const leave = (entry: Entry) => schedule.leave(requester.account, entry)
      return runEntry(requester, work, options, pending, leave, (entry) => join(requester.account, entry))
    },
    close: async () => {
      closed = true
      for (const entry of pending) entry.refuse(closing)
      await Promise.all(running)
    },
  }
}

/** Adds a scan to the queue and resolves with its result. */
function runEntry<T>(
  { signal }: ScanRequester,
  work: (signal: AbortSignal) => Promise<T>,
  { limitMs, setTimer }: Pick<ScanQueueOptions, 'limitMs' | 'setTimer'>,
  pending: Set<Entry>,
  leave: (entry: Entry) => void,
  join: (entry: Entry) => void,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const cancellation = new AbortController()
  const entry: Entry = {
    start: async () => {
      signal?.removeEventListener('abort', onAbort)
      await work(cancellation.signal).then(resolve, reject)
    },
    refuse: (reason) => {
      leave(entry)
      reject(new ScanRefused(reason))
      cancellation.abort()
    },
  }
  const onAbort = () => entry.refuse(clientGone)
  const cancelLimit = setTimer(limitMs, () => entry.refuse(`The read did not finish within ${limitMs} ms`))
  pending.add(entry)
  signal?.addEventListener('abort', onAbort)
  signal?.aborted ? onAbort() : join(entry)
  return promise.finally(() => {
    pending.delete(entry)
    cancelLimit()
    signal?.removeEventListener('abort', onAbort)
  })
}
