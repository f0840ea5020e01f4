import type { Database } from './open.ts'

export interface RequestCounter {
  /** Counts a request: one step in a map, written down later. */
  count: (clientId: string) => void
  /** Writes down what was counted, and keeps counting. */
  flush: () => Promise<void>
  /** Writes down the rest and ends. */
  close: () => Promise<void>
}

export interface RequestCounterOptions {
  db: Database
  now: () => number
  onError: (error: unknown) => void
}

const flushEveryMs = 5_000
const keptDays = 400
const dayMs = 86_400_000
const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10)

/**
 * Counts the requests of each client in memory and adds them to its day (UTC) every few seconds. What was counted since
 * the last time is lost with a killed process, and may go to the day before around midnight: it is a statistic.
 */
export function requestCounter({ db, now, onError }: RequestCounterOptions): RequestCounter {
  let counts = new Map<string, number>()
  let flushing: Promise<void> = Promise.resolve()

  async function flushNow(): Promise<void> {
    if (counts.size === 0) return
    const taken = counts
    counts = new Map()
    await add(db, dayOf(now()), taken).catch((error) => {
      // Tried again with the next ones.
      for (const [client, requests] of taken) counts.set(client, (counts.get(client) ?? 0) + requests)
      onError(error)
    })
  }
  const flush = () => {
    flushing = flushing.then(flushNow)
    return flushing
  }
  const timer = setInterval(flush, flushEveryMs)
  return {
    count: (clientId) => void counts.set(clientId, (counts.get(clientId) ?? 0) + 1),
    flush,
    close: () => {
      clearInterval(timer)
      return flush()
    },
  }
}

const rowsAtOnce = 500

async function add(db: Database, day: string, counts: Map<string, number>): Promise<void> {
  const rows = [...counts].map(([clientId, requests]) => ({ day, clientId, requests }))
  await db.write(async (tx) => {
    for (let at = 0; at < rows.length; at += rowsAtOnce) {
      await tx
        .insertInto('requestCounts')
        .values(rows.slice(at, at + rowsAtOnce))
        .onConflict((conflict) =>
          conflict.columns(['day', 'clientId']).doUpdateSet((row) => ({
            requests: row('requestCounts.requests', '+', row.ref('excluded.requests')),
          })),
        )
        .execute()
    }
  })
}

/** Removes counts of days long past; returns how many. */
export async function expireRequestCounts(db: Database, now: () => number): Promise<number> {
  const before = dayOf(now() - keptDays * dayMs)
  const { numDeletedRows } = await db.write((tx) =>
    tx.deleteFrom('requestCounts').where('day', '<', before).executeTakeFirst(),
  )
  return Number(numDeletedRows)
}
