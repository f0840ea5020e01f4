interface Account<Entry> {
  running: number
  waiting: Entry[]
}

/** Schedules accounts round-robin, regardless of how many entries each account has waiting. */
export interface ScanTurns<Entry> {
  /** Number of waiting entries, in total and for one account. */
  waiting: () => number
  waitingOf: (account: string) => number
  join: (account: string, entry: Entry) => void
  /** Removes a waiting entry; does nothing if the entry is not waiting. */
  leave: (account: string, entry: Entry) => void
  /** Takes the next entry, which counts as running until `ended` is called; undefined if no entry may start. */
  next: () => { account: string; entry: Entry } | undefined
  ended: (account: string) => void
}

export function scanTurns<Entry>(runningPerAccount: number): ScanTurns<Entry> {
  // The first account is next; after its turn it moves to the end.
  const accounts = new Map<string, Account<Entry>>()
  let waiting = 0
  const forget = (key: string, account: Account<Entry>) => {
    if (account.running === 0 && account.waiting.length === 0) accounts.delete(key)
  }
  return {
    waiting: () => waiting,
    waitingOf: (key) => accounts.get(key)?.waiting.length ?? 0,
    join: (key, entry) => {
      const account = accounts.get(key) ?? { running: 0, waiting: [] }
      accounts.set(key, account)
      account.waiting.push(entry)
      waiting++
    },
    leave: (key, entry) => {
      const account = accounts.get(key)
      const at = account?.waiting.indexOf(entry) ?? -1
      if (account === undefined || at < 0) return
      account.waiting.splice(at, 1)
      waiting--
      forget(key, account)
    },
    next: () => {
      for (const [key, account] of accounts) {
        const entry = account.running < runningPerAccount ? account.waiting.shift() : undefined
        if (entry === undefined) continue
        waiting--
        account.running++
        accounts.delete(key)
        accounts.set(key, account)
        return { account: key, entry }
      }
      return undefined
    },
    ended: (key) => {
      const account = accounts.get(key)
      if (account === undefined) return
      account.running--
      forget(key, account)
    },
  }
}
