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
  /** The id of this process in the table `nodes`. */
  node: string
  /** Returns the current time in ms since the epoch. */
  now: () => number
  /** Called with the error if counts could not be stored; these counts are lost. */
  onError: (error: unknown) => void
}

export interface TrafficCounter {
  /** Counts a response for its client, its user and its address. */
  count: (line: Pick<AccessLine, 'client' | 'subject' | 'address' | 'status'>) => void
  /** Stores the counts of the minute that is ending. If an hour has ended, also stores its counts. */
  flush: () => Promise<void>
  /** Stores all counts and stops. */
  close: () => Promise<void>
}

export const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000]
export const kinds = ['client', 'subject', 'address'] as const
export type Kind = (typeof kinds)[number]

/** Maximum numbers of keys of each kind: counted at the same time, and stored per row. */
const [maxKeys, maxStored] = [4_000, 500]
/** A timer may fire up to this much early. The flush still belongs to the minute that is ending. */
const earlyMs = minuteMs / 10
/** Counts per minute are read for about an hour, and counts per hour for a day. Both are deleted a little later. */
const keptMs = { minute: 2 * hourMs + 10 * minuteMs, hour: dayMs + hourMs }

/** The addresses in one IPv6 /64 network count as one, as they do for rate limits. */
const counters = (): Record<Kind, BusiestKeys> => ({
  client: busiestKeys(maxKeys, maxStored),
  subject: busiestKeys(maxKeys, maxStored),
  address: busiestKeys(maxKeys, maxStored, networkOf),
})

/**
 * Counts responses by client, user and address in memory, and stores the busiest of each minute, one row per kind. The
 * minutes of an hour are also added up and stored as one row for that hour. Requests without a client, and clients that
 * act for themselves, count under an empty key. If the process is killed, its current minute and the row of the current
 * hour are lost.
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

/** Deletes counts that are no longer needed; returns the number of deleted rows. */
export const expireTraffic = (db: Database, now: () => number): Promise<number> =>
  sweepBelow(db, { table: 'traffic', key: ['period', 'kind', 'at', 'node'], column: 'expires_at' }, iso(now()))
