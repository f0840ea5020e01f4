import { type Later, type Requester, ScanRefused } from './scan.ts'
import { scanTurns } from './scan-turns.ts'

export interface ScanQueueOptions {
  /** Scans that run at the same time, in all and for one account. */
  running: number
  runningPerAccount: number
  /** Scans that wait, in all and for one account. */
  waiting: number
  waitingPerAccount: number
  /** The longest that a scan may wait and run. */
  limitMs: number
  later: Later
}

/**
 * Runs `work` when it is the account's turn. At the time limit the caller is refused and the signal of `work` is aborted,
 * while its place stays taken until `work` has really ended.
 */
export interface ScanQueue {
  run: <T>(requester: Requester, work: (signal: AbortSignal) => Promise<T>) => Promise<T>
  /** Refuses what waits and runs, and everything from now on; resolves when nothing runs any more. */
  close: () => Promise<void>
}

/** A scan from its request to its answer. */
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

/** Makes the entry of a scan, lets it join, and resolves with what it came to. */
function entered<T>(
  { signal }: Requester,
  work: (signal: AbortSignal) => Promise<T>,
  { limitMs, later }: Pick<ScanQueueOptions, 'limitMs' | 'later'>,
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
  const cancelLimit = later(limitMs, () => entry.refuse(`The read has not ended after ${limitMs} ms`))
  unanswered.add(entry)
  signal?.addEventListener('abort', goAway)
  signal?.aborted ? goAway() : join(entry)
  return promise.finally(() => {
    unanswered.delete(entry)
    cancelLimit()
    signal?.removeEventListener('abort', goAway)
  })
}
