import type { AccessLine, WriteAccessLine } from '../http/server/access-log.ts'
import type { Database } from '../storage/database.ts'
import { iso, type RandomBytes } from '../storage/ids.ts'
import { sweepBelow } from '../storage/sweep.ts'
import type { RequestLogTable } from '../storage/tables/observed.ts'

export interface RequestLogOptions {
  db: Database
  /** The id of this process in the table `nodes`. */
  node: string
  /** Maximum number of responses stored per second. */
  rate: number
  /** Returns the current time in ms since the epoch. */
  now: () => number
  random: RandomBytes
  /** Called with the number of responses that were not stored. */
  onUnlogged: (count: number) => void
  /** Called with the error if responses could not be stored; only once for a series of consecutive errors. */
  onError: (error: unknown) => void
}

export interface RequestLog {
  /** Adds a response, which is stored within a few seconds unless there are too many. */
  add: WriteAccessLine
  /** Ends the current second, and stores its responses. */
  flush: () => Promise<void>
  /** Stores the remaining responses and stops. */
  close: () => Promise<void>
}

/** How long responses stay in the log. */
export const keptHours = 24
const keptMs = keptHours * 3_600_000
const secondMs = 1_000
/** Responses are stored in batches of this many seconds, because every commit on SQLite waits for the disk. */
const secondsPerWrite = 5
const rowsPerInsert = 250
const [maxMethod, maxPath, maxText] = [20, 500, 200]

interface Logged {
  line: AccessLine
  atMs: number
}

/** Routes whose successful responses are not stored: health checks, and the files of the console. */
const omittedRoutes = new Set<string | undefined>(['/livez', '/readyz', '/console/assets/:file'])
const reads = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * Stores responses in the database, at most `rate` per second; `openSecond` selects them. Adding a response just
 * appends it to a list; once the list is full, it is only counted. Successful responses of `omittedRoutes` are not
 * stored. If the database is slow, responses are dropped and counted instead of piling up.
 */
export function requestLog(options: RequestLogOptions): RequestLog {
  const { now, onUnlogged } = options
  const second = openSecond(options.rate)
  const write = writer(options)
  let chosen: Logged[] = []
  let seconds = 0
  let writing: Promise<void> | null = null

  const endSecond = () => {
    const { logged, missing } = second.end()
    chosen.push(...logged)
    if (missing > 0) onUnlogged(missing)
  }
  const takeChosen = () => {
    const logged = chosen
    chosen = []
    return logged
  }
  const flush = async () => {
    endSecond()
    await writing
    await write(takeChosen())
  }
  const tick = () => {
    endSecond()
    if (++seconds % secondsPerWrite !== 0 || chosen.length === 0) return
    if (writing !== null) return onUnlogged(takeChosen().length)
    writing = write(takeChosen()).finally(() => {
      writing = null
    })
  }
  const timer = setInterval(tick, secondMs)
  return {
    add: (line) => {
      if (line.status >= 400 || !omittedRoutes.has(line.route)) second.add(line, now)
    },
    flush,
    close: () => {
      clearInterval(timer)
      return flush()
    },
  }
}

/**
 * Collects the responses of one second, at most `rate` of each kind. Stores 5xx first, then 4xx, then writes, then
 * reads. 4xx get at most half of `rate` if the rest is needed for writes and reads, because a single faulty client can
 * cause any number of 4xx.
 */
function openSecond(rate: number) {
  const [faults, refusals, writes, readings]: [Logged[], Logged[], Logged[], Logged[]] = [[], [], [], []]
  const lists = [faults, refusals, writes, readings]
  let seen = 0
  const listFor = ({ status, method }: AccessLine) => {
    if (status >= 400) return status >= 500 ? faults : refusals
    return reads.has(method) ? readings : writes
  }
  const chosen = () => {
    const free = rate - Math.min(rate, faults.length)
    const others = [...writes, ...readings]
    const share = Math.min(refusals.length, free, Math.max(Math.ceil(rate / 2), free - others.length))
    return [...faults, ...refusals.slice(0, share), ...others].slice(0, rate)
  }
  return {
    add: (line: AccessLine, now: () => number) => {
      seen++
      const list = listFor(line)
      if (list.length < rate) list.push({ line, atMs: now() })
    },
    /** Returns the responses to store, and the number of dropped responses. */
    end: () => {
      const logged = chosen()
      const missing = seen - logged.length
      for (const list of lists) list.length = 0
      seen = 0
      return { logged, missing }
    },
  }
}

/** Creates the function that stores responses in one transaction. On an error, it reports their loss and resolves. */
function writer({ db, node, random, onUnlogged, onError }: RequestLogOptions) {
  let isFailing = false
  return async (logged: readonly Logged[]): Promise<void> => {
    if (logged.length === 0) return
    const rows = logged.map((one) => rowOf(one, node, random))
    try {
      await db.write(async (tx) => {
        for (let at = 0; at < rows.length; at += rowsPerInsert) {
          await tx
            .insertInto('requestLog')
            .values(rows.slice(at, at + rowsPerInsert))
            .execute()
        }
      })
      isFailing = false
    } catch (error) {
      onUnlogged(rows.length)
      if (!isFailing) onError(error)
      isFailing = true
    }
  }
}

const timeDigits = 9
const radix = 32

/** Returns the prefix of the id of a response logged at this time: nine base-32 digits, so that ids sort by time. */
const timePart = (ms: number): string => Math.floor(ms).toString(radix).padStart(timeDigits, '0')

/** Returns the time encoded in an id. */
export const loggedAt = (id: string): string => iso(Number.parseInt(id.slice(0, timeDigits), radix))

function rowOf({ line, atMs }: Logged, node: string, random: RandomBytes): RequestLogTable {
  const { requestId, method, path, status, ms, client, subject, address, errorCode } = line
  const short = (text: string | undefined) => text?.slice(0, maxText) ?? null
  return {
    id: `${timePart(atMs)}${random(6).toString('base64url')}`,
    ...{ requestId, node, method: method.slice(0, maxMethod), path: path.slice(0, maxPath), status, ms },
    ...{ clientId: short(client), subject: short(subject), address: short(address), errorCode: errorCode ?? null },
  }
}

/** Deletes responses that are more than a day old; returns their number. */
export const expireRequestLog = (db: Database, now: () => number): Promise<number> =>
  sweepBelow(db, { table: 'request_log', key: ['id'], column: 'id' }, timePart(now() - keptMs))
