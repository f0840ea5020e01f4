import { networkOf } from '../http/headers/client-address.ts'
import { type AccessLine, classIndexOf } from '../http/server/access-log.ts'
import { atEach } from '../storage/clock.ts'
import type { Database } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import { sweepBelow } from '../storage/sweep.ts'
import type { TrafficTable } from '../storage/tables/observed.ts'
import { type BusiestKeys, busiestKeys } from './busiest.ts'

export interface TrafficOptions {
  db: Database
  /** The id of this process among the nodes. */
  node: string
  /** Milliseconds since the epoch. */
  now: () => number
  /** Receives the error of counts that could not be stored; they are lost. */
  onError: (error: unknown) => void
}

export interface TrafficCounter {
  /** Counts a response by its client, its user and its address. */
  count: (line: Pick<AccessLine, 'client' | 'subject' | 'address' | 'status'>) => void
  /** Stores the counts of the minute that ends now; if another hour has begun, also those of the last one. */
  flush: () => Promise<void>
  /** Stores all counts and stops. */
  close: () => Promise<void>
}

export const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000]
export const kinds = ['client', 'subject', 'address'] as const
export type Kind = (typeof kinds)[number]

/** How many keys of each kind are counted at a time, and how many of them are stored. */
const [maxKeys, maxStored] = [4_000, 500]
/** A timer may fire this much early; the next minute has begun then. */
const earlyMs = minuteMs / 10
/** Minutes are read for at most two hours, hours for a day. */
const keptMs = { minute: 2 * hourMs + 10 * minuteMs, hour: dayMs + hourMs }

/** Addresses of one IPv6 network (/64) count together, as they do for the limits. */
const counters = (): Record<Kind, BusiestKeys> => ({
  client: busiestKeys(maxKeys, maxStored),
  subject: busiestKeys(maxKeys, maxStored),
  address: busiestKeys(maxKeys, maxStored, networkOf),
})

/**
 * Counts responses by client, user and address in memory, and stores the busiest of each minute, one row for each kind. The
 * minutes of an hour are also added up to a row for that hour. Requests without a client, and clients that act for
 * themselves, count under an empty key. If the process is killed, the hour that has begun is missing in the hours.
 */
export function trafficCounter({ db, node, now, onError }: TrafficOptions): TrafficCounter {
  const [minute, hour] = [counters(), counters()]
  const startOf = (ms: number, atMs = now()) => Math.floor(atMs / ms) * ms
  let [minuteAt, hourAt] = [startOf(minuteMs), startOf(hourMs)]
  const take = (period: TrafficTable['period'], atMs: number): TrafficTable[] =>
    kinds.flatMap((kind) => {
      const taken = (period === 'minute' ? minute : hour)[kind].take()
      if (taken === null) return []
      if (period === 'minute') hour[kind].add(taken)
      const expiresAt = iso(atMs + keptMs[period])
      return [{ period, kind, at: iso(atMs), node, counts: JSON.stringify(taken), expiresAt }]
    })
  const store = async (rows: TrafficTable[]) => {
    if (rows.length === 0) return
    await db.write((tx) => tx.insertInto('traffic').values(rows).execute()).catch(onError)
  }
  const flush = async () => {
    const rows = take('minute', minuteAt)
    const atMs = now() + earlyMs
    minuteAt = startOf(minuteMs, atMs)
    if (startOf(hourMs, atMs) !== hourAt) rows.push(...take('hour', hourAt))
    hourAt = startOf(hourMs, atMs)
    await store(rows)
  }
  const stop = atEach(minuteMs, now, flush)
  return {
    count: ({ client = '', subject = '', address = '', status }) => {
      const index = classIndexOf(status)
      minute.client.count(client, index)
      minute.subject.count(subject === client ? '' : subject, index)
      minute.address.count(address, index)
    },
    flush,
    close: () => {
      stop()
      return store([...take('minute', minuteAt), ...take('hour', hourAt)])
    },
  }
}

/** Deletes counts that are no longer read; returns the number of rows. */
export const expireTraffic = (db: Database, now: () => number): Promise<number> =>
  sweepBelow(db, { table: 'traffic', key: ['period', 'kind', 'at', 'node'], column: 'expires_at' }, iso(now()))
