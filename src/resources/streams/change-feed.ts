import { slotLimiter } from '../../files/slots.ts'
import type { Verify } from '../../http/policies/authenticate.ts'
import { whenAborted } from '../../http/server/response-end.ts'
import type { Database } from '../../storage/database.ts'
import type { RandomBytes } from '../../storage/ids.ts'
import { changeLogReader, type LoggedChange, type LogPosition } from '../../storage/row-changes/read.ts'
import { channels } from './channels.ts'
import type { ChangeFeed, FeedMember, FeedStart } from './feed-member.ts'
import { checkSoon, type FeedState, pollSoon } from './feed-state.ts'
import { changeOf, eventIdOf, positionOf } from './subscribers.ts'
import { watchesOf } from './watches.ts'

export interface ChangeFeedOptions {
  db: Database
  now: () => number
  random: RandomBytes
  later: (ms: number, run: () => void) => () => void
  verify: Verify
  /** Called with the errors of streams. */
  report: (error: unknown, what: string) => void
  /** How many streams an account may have open in this process, and for how long a stream that ended can be resumed. */
  streams?: { perAccount: number; historySeconds: number }
}

const defaultStreams = { perAccount: 20, historySeconds: 3_600 }

export const maxStreamsInAll = 10_000
/**
 * When the service stops, it makes clients reconnect after 1 to 3 seconds, at random, so that they do not all reconnect
 * at once.
 */
const reconnectMs = { min: 1_000, range: 2_000 }

/**
 * Creates the change feed of a process. A single log reader serves all streams that have caught up, and runs only while
 * there are such streams.
 */
export function changeFeed({ streams = defaultStreams, report, ...options }: ChangeFeedOptions): ChangeFeed {
  const historyMs = streams.historySeconds * 1_000
  const onError = (error: unknown) => report(error, 'event streams')
  const state: FeedState = {
    ...{ later: options.later, onError },
    log: changeLogReader(options.db),
    members: new Map(),
    channels: channels(),
    position: null,
    readAt: Number.NEGATIVE_INFINITY,
    writes: 0,
    open: new Set(),
    watches: watchesOf({ ...options, historyMs, onGap: (noun) => resetAll(state, noun) }),
    cancels: { poll: null, check: null },
    isClosed: false,
  }
  return {
    slots: slotLimiter({ perAccount: streams.perAccount, inTotal: maxStreamsInAll }),
    verify: options.verify,
    onError,
    start: (noun, lastEventId) => start(state, noun, lastEventId),
    join: (member, from) => join(state, member, from),
    move: (member) => {
      const known = state.members.get(member)
      if (known === undefined) return
      state.channels.flush()
      known.leave()
      known.leave = state.channels.add(member, member.view(), known.from)
    },
    close: () => close(state),
  }
}

function close(state: FeedState): void {
  state.isClosed = true
  state.channels.flush()
  const members = [...state.open]
  for (const [at, member] of members.entries())
    member.stop(reconnectMs.min + Math.round((reconnectMs.range * at) / members.length))
}

async function start(state: FeedState, noun: string, lastEventId: string | undefined): Promise<FeedStart> {
  const since = await state.watches.ensure(noun)
  const known = lastEventId === undefined ? undefined : await positionOf(state.log, lastEventId)
  if (known && known.seq >= since) return { at: known.at, tag: known.tag, isReset: false }
  return { ...(await state.log.head()), isReset: lastEventId !== undefined }
}

async function resetAll({ members, log }: FeedState, noun: string): Promise<void> {
  const eventId = eventIdOf(await log.head())
  for (const member of members.keys()) if (member.view().noun === noun) member.reset(eventId)
}

async function join(state: FeedState, member: FeedMember, from: number): Promise<void> {
  state.open.add(member)
  whenAborted(member.ended, () => state.open.delete(member))
  if (state.isClosed) member.stop(reconnectMs.min)
  for (let at = from; ; ) {
    const { entries, isEnd } = await state.log.after(at)
    if (member.ended.aborted) return
    for (const { changes } of entries) catchUp(member, changes)
    at = entries.at(-1)?.at ?? at
    await member.drained()
    if (!isEnd) await member.check(null)
    if (member.ended.aborted) return
    // The feed may have read further than this stream in the meantime.
    if (isEnd && (state.position?.at ?? at) <= at) return add(state, member, at, entries.at(-1))
  }
}

/** Sends a member the events for logged changes. */
function catchUp(member: FeedMember, changes: readonly LoggedChange[]): void {
  const { noun, eventFor } = member.view()
  for (const logged of changes) {
    if (logged.noun !== noun) continue
    const event = eventFor(changeOf(logged))
    if (event === null) continue
    member.send(event.text)
    if (!event.isLast) continue
    member.end()
    return
  }
}

function add(state: FeedState, member: FeedMember, from: number, last: LogPosition | undefined): void {
  member.joined()
  state.members.set(member, { from, leave: state.channels.add(member, member.view(), from) })
  whenAborted(member.ended, () => {
    state.members.get(member)?.leave()
    state.members.delete(member)
    if (state.members.size > 0) return
    state.position = null
    state.cancels.poll?.()
    state.cancels.check?.()
    state.cancels = { poll: null, check: null }
  })
  if (state.members.size === 0) return
  if (state.position === null) {
    state.position = { at: from, tag: last?.tag ?? '' }
    state.readAt = Number.NEGATIVE_INFINITY
    state.writes = 0
  }
  if (state.cancels.poll === null) pollSoon(state)
  if (state.cancels.check === null) checkSoon(state)
}
