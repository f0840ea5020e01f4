import { isUserId } from '../http/policies/authenticate.ts'
import type { ResponseCounts } from '../http/server/access-log.ts'
import type { Database } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import { clientNames, userNames } from '../storage/names.ts'
import { addResponses, type Busiest, totalResponses } from './busiest.ts'
import { hourMs, type Kind, minuteMs } from './counter.ts'

export type TrafficWindow = 'minute' | 'hour' | 'day'

/** Numbers of responses, in total and by class. */
interface CountedResponses {
  requests: number
  succeeded: number
  clientErrors: number
  limited: number
  serverErrors: number
}

export interface Traffic {
  /** A half-open range [from, to). */
  from: string
  to: string
  total: CountedResponses
  /** Busiest first, at most 100. `key` is null for all requests without a client, user or address. */
  busiest: (CountedResponses & { key: string | null; name?: string })[]
  /** The sum of all keys that are not listed. */
  others: CountedResponses
}

const maxListed = 100
/** All nodes store the counts of a minute within this time after its end. */
const delayMs = 5_000

/** Reads the busiest clients, users or addresses of the last complete minute, the last 60 minutes, or about a day. */
export async function readTraffic(db: Database, kind: Kind, window: TrafficWindow, nowMs: number): Promise<Traffic> {
  const endMs = Math.floor((nowMs - delayMs) / minuteMs) * minuteMs
  const thisHourMs = Math.floor((endMs - 1) / hourMs) * hourMs
  const startMs = { minute: endMs - minuteMs, hour: endMs - hourMs, day: thisHourMs - 23 * hourMs }[window]
  const rowsOf = (period: 'minute' | 'hour', fromMs: number, toMs: number) =>
    db.read
      .selectFrom('traffic')
      .select('counts')
      .where('period', '=', period)
      .where('kind', '=', kind)
      .where('at', '>=', iso(fromMs))
      .where('at', '<', iso(toMs))
      .execute()
  const rows =
    window === 'day'
      ? [...(await rowsOf('hour', startMs, thisHourMs)), ...(await rowsOf('minute', thisHourMs, endMs))]
      : await rowsOf('minute', startMs, endMs)
  const { keys, others } = merged(rows.map(({ counts }) => JSON.parse(counts) as Busiest))
  const order = [...keys].toSorted(([, one], [, other]) => totalResponses(other) - totalResponses(one))
  const total: ResponseCounts = [...others]
  for (const [, counts] of order) addResponses(total, counts)
  for (const [, counts] of order.slice(maxListed)) addResponses(others, counts)
  const listed = order.slice(0, maxListed)
  const names = await namesOf(
    db,
    kind,
    listed.map(([key]) => key),
  )
  return {
    ...{ from: iso(startMs), to: iso(endMs), total: viewOf(total) },
    busiest: listed.map(([key, counts]) => {
      const name = names.get(key)
      return { key: key === '' ? null : key, ...(name !== undefined && { name }), ...viewOf(counts) }
    }),
    others: viewOf(others),
  }
}

function merged(all: readonly Busiest[]) {
  const keys = new Map<string, ResponseCounts>()
  const others: ResponseCounts = [0, 0, 0, 0]
  for (const one of all) {
    addResponses(others, one.others)
    for (const [key, ...counts] of one.keys) {
      const before = keys.get(key)
      if (before === undefined) keys.set(key, counts)
      else addResponses(before, counts)
    }
  }
  return { keys, others }
}

const viewOf = (counts: ResponseCounts): CountedResponses => {
  const [succeeded, clientErrors, limited, serverErrors] = counts
  return { requests: totalResponses(counts), succeeded, clientErrors, limited, serverErrors }
}

/** Returns the names of clients or users by id; none for addresses and unknown ids. */
export async function namesOf({ read }: Database, kind: Kind, ids: readonly string[]): Promise<Map<string, string>> {
  if (kind === 'client') return clientNames(read, ids)
  return kind === 'subject' ? userNames(read, ids.filter(isUserId).map(Number)) : new Map()
}
