import { ScanRefused, type ScanRequester, type SetTimer } from './scan.ts'
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
 * Runs `work` when the account is next. At the time limit the caller's promise rejects and the signal of `work` is aborted;
 * its slot is released only when `work` has really ended.
 */
export interface ScanQueue {
  run: <T>(requester: ScanRequester, work: (signal: AbortSignal) => Promise<T>) => Promise<T>
  /** Rejects all waiting, running and future scans; resolves when none is running any more. */
  close: () => Promise<void>
}

/** A scan from its request to its result. */
interface Entry {
  start: () => Promise<void>
  refuse: (reason: string) => void
}

const gone = 'The client has closed the connection'
const closing = 'The database is being closed'

export function scanQueue(options: ScanQueueOptions): ScanQueue {
  const turns = scanTurns<Entry>(options.runningPerAccount)
  const unanswered = new Set<Entry>()
  const running = new Set<Promise<void>>()
  let closed = false

  const whyNot = (account: string): string | undefined => {
    if (closed) return closing
    if (turns.waiting() >= options.waiting) return 'Too many reads wait already'
    return turns.waitingOf(account) < options.waitingPerAccount ? undefined : 'The account has too many reads waiting'
  }
  const startReady = () => {
    while (running.size < options.running) {
      const due = turns.next()
      if (due === undefined) return
      const ended = due.entry.start().finally(() => {
        running.delete(ended)
        turns.ended(due.account)
        startReady()
      })
      running.add(ended)
    }
  }
  const join = (account: string, entry: Entry) => {
    const refusal = whyNot(account)
    if (refusal !== undefined) return entry.refuse(refusal)
    turns.join(account, entry)
    startReady()
  }
  return {
    run: (requester, work) => {
      const leave = (entry: Entry) => turns.leave(requester.account, entry)
      return entered(requester, work, options, unanswered, leave, (entry) => join(requester.account, entry))
    },
    close: async () => {
      closed = true
      for (const entry of unanswered) entry.refuse(closing)
      await Promise.all(running)
    },
  }
}

/** Creates the entry of a scan, adds it to the queue, and resolves with its result. */
function entered<T>(
  { signal }: ScanRequester,
  work: (signal: AbortSignal) => Promise<T>,
  { limitMs, setTimer }: Pick<ScanQueueOptions, 'limitMs' | 'setTimer'>,
  unanswered: Set<Entry>,
  leave: (entry: Entry) => void,
  join: (entry: Entry) => void,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const stopping = new AbortController()
  const entry: Entry = {
    start: async () => {
      signal?.removeEventListener('abort', goAway)
      await work(stopping.signal).then(resolve, reject)
    },
    refuse: (reason) => {
      leave(entry)
      reject(new ScanRefused(reason))
      stopping.abort()
    },
  }
  const goAway = () => entry.refuse(gone)
  const cancelLimit = setTimer(limitMs, () => entry.refuse(`The read has not ended after ${limitMs} ms`))
  unanswered.add(entry)
  signal?.addEventListener('abort', goAway)
  signal?.aborted ? goAway() : join(entry)
  return promise.finally(() => {
    unanswered.delete(entry)
    cancelLimit()
    signal?.removeEventListener('abort', goAway)
  })
}
