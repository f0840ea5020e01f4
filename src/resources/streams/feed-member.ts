import type { SlotLimiter } from '../../files/slots.ts'
import type { Verify } from '../../http/policies/authenticate.ts'
import type { LogPosition } from '../../storage/row-changes/read.ts'
import type { StreamReceiver, StreamView } from './channels.ts'

/** An open stream, as the feed handles it. */
export interface FeedMember extends StreamReceiver {
  /** Returns the view of the stream; `check` may change it. */
  view: () => StreamView
  /** Resolves when the client has read enough to receive more, or when the stream has ended. */
  drained: () => Promise<void>
  /** Called when the stream has caught up with the log. */
  joined: () => void
  /**
   * Checks whether the stream may continue. Called every five seconds, and between batches while the stream catches up.
   * `eventId` is a position up to which the stream has received everything; null if none is known.
   */
  check: (eventId: string | null) => Promise<void>
  /** Sends the event `reset`: the client must read the rows again. */
  reset: (eventId: string | null) => void
  /** Ends the stream because the service stops. The client reconnects after `retryMs`. */
  stop: (retryMs: number) => void
  /** Aborted when the stream ends. */
  ended: AbortSignal
}

/** The log position at which a stream begins; `isReset` is true if the client may have missed earlier changes. */
export interface FeedStart extends LogPosition {
  isReset: boolean
}

/** Sends the committed changes of rows to the streams of this process. */
export interface ChangeFeed {
  slots: SlotLimiter
  verify: Verify
  onError: (error: unknown) => void
  /**
   * Ensures that the changes of a resource are logged. Returns where a stream begins: after the event `lastEventId` if
   * the log is complete since that event, otherwise at the end of the log.
   */
  start: (noun: string, lastEventId: string | undefined) => Promise<FeedStart>
  /** Sends a member the logged changes after a position, and then every new change until the member ends. */
  join: (member: FeedMember, from: number) => Promise<void>
  /** Registers a member again after its view has changed. */
  move: (member: FeedMember) => void
  /** Ends all streams. Streams that are opened later end immediately. */
  close: () => void
}
