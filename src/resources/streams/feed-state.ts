import { setImmediate } from 'node:timers/promises'
import type { ChangeLogReader, LogPosition } from '../../storage/row-changes/read.ts'
import type { Channels } from './channels.ts'
import type { FeedMember } from './feed-member.ts'
import { eventIdOf } from './subscribers.ts'
import type { Watches } from './watches.ts'

/**
 * The shortest interval at which the log is read while streams are open. On SQLite, it is read only if changes were
 * committed.
 */
export const feedPollMs = 100
/** The pause before the next read, in ms per stream written to, so that writing takes about 5 % of a core. */
const delayPerWriteMs = 0.5
const maxFeedPollMs = 500
/** The interval at which each stream's token, access rules and filters are evaluated again. */
export const feedCheckMs = 5_000
/** The number of streams checked between two pauses. */
const checkedAtOnce = 50

/** The streams of a process, and the position up to which the log has been read for them. */
export interface FeedState {
  later: (ms: number, run: () => void) => () => void
  onError: (error: unknown) => void
  log: ChangeLogReader
  members: Map<FeedMember, { from: number; leave: () => void }>
  channels: Channels
  /** The log position up to which the members have been sent all changes; null while there are no members. */
  position: LogPosition | null
  /** The last transaction's number, taken just before the log was read up to `position`. */
  readAt: number
  /** The number of streams that the last read wrote to. */
  writes: number
  /** All streams: the members, and the streams that are still catching up with the log. */
  open: Set<FeedMember>
  watches: Watches
  cancels: Record<'poll' | 'check', (() => void) | null>
  isClosed: boolean
}

/** Schedules the next read of the log. */
export function pollSoon(state: FeedState): void {
  const pauseMs = Math.min(maxFeedPollMs, Math.max(feedPollMs, delayPerWriteMs * state.writes))
  const cancel = state.later(pauseMs, async () => {
    state.writes = 0
    if (state.log.hasMore(state.readAt)) await read(state).catch(state.onError)
    // During the read, all members may have ended, and new members may have scheduled another poll.
    if (state.cancels.poll === cancel) pollSoon(state)
  })
  state.cancels.poll = cancel
}

/** Reads the new changes and sends their events, so that each stream is written to once. */
async function read(state: FeedState): Promise<void> {
  try {
    for (let hasMore = true; hasMore && state.position !== null; ) {
      const from = state.position.at
      const readAt = state.log.lastCommit()
      const { entries, isEnd } = await state.log.after(from)
      if (state.position?.at !== from) continue
      state.readAt = readAt
      for (const { at, tag, changes } of entries) {
        for (const logged of changes) state.channels.collect(logged)
        state.position = { at, tag }
      }
      hasMore = !isEnd
      // Pause between batches, so that requests do not wait until all changes have been processed.
      if (hasMore) await setImmediate()
    }
  } finally {
    state.writes = state.channels.flush()
  }
}

/** Schedules the next check of all streams. */
export function checkSoon(state: FeedState): void {
  const cancel = state.later(feedCheckMs, async () => {
    await checkAll(state).catch(state.onError)
    if (state.cancels.check === cancel) checkSoon(state)
  })
  state.cancels.check = cancel
}

async function checkAll(state: FeedState): Promise<void> {
  const members = [...state.members]
  for (let at = 0; at < members.length; at += checkedAtOnce) {
    // Pause so that requests do not have to wait until all streams have been checked.
    if (at > 0) await setImmediate()
    // A heartbeat contains the current position, so send the events collected up to there first.
    state.channels.flush()
    const { position } = state
    const eventId = position && position.tag !== '' ? eventIdOf(position) : null
    for (const [member, { from }] of members.slice(at, at + checkedAtOnce)) {
      // `check` reports its own errors.
      if (!member.ended.aborted) void member.check(position && position.at >= from ? eventId : null)
    }
  }
  await state.watches.renew(state.channels.nouns())
}
