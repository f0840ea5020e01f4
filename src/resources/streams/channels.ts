import type { LoggedChange } from '../../storage/row-changes/read.ts'
import { type Change, type Subscriber, subscribers } from './subscribers.ts'

/** An event of a stream as text. */
export interface StreamEvent {
  text: string
  /** True if the stream ends after this event. */
  isLast: boolean
}

/** The rows that a stream contains, and their representation. */
export interface StreamView extends Pick<Subscriber, 'noun' | 'only'> {
  /** Streams of a resource with the same key share their events; null if the events cannot be shared. */
  key: string | null
  /** Returns the event for a change; null if the change does not concern the stream. */
  eventFor: (change: Change) => StreamEvent | null
}

/** Receives the events of a channel. */
export interface StreamReceiver {
  send: (content: string | Buffer) => void
  end: () => void
  /** Reports an error and ends the stream. */
  fail: (error: unknown) => void
}

/** The open streams, grouped by view. Events are found and serialized once per group. */
export interface Channels {
  /** Adds a receiver of the events after a position; returns the function that removes it. */
  add: (receiver: StreamReceiver, view: StreamView, from: number) => () => void
  /** Collects the events for a change. */
  collect: (logged: LoggedChange) => void
  /** Sends the collected events, at most one write for each receiver. Returns the number of writes. */
  flush: () => number
  nouns: () => string[]
}

type Pending = StreamEvent & { at: number }

interface Channel {
  /** For each receiver, the position up to which it has received all changes. */
  receivers: Map<StreamReceiver, number>
  pending: Pending[]
}

export function channels(): Channels {
  const all = subscribers()
  const byKey = new Map<unknown, Channel & { close: () => void }>()
  const unsent = new Set<Channel>()
  const open = (key: unknown, view: StreamView) => {
    const channel: Channel = { receivers: new Map(), pending: [] }
    const deliver = (change: Change) => {
      collect(channel, view, change)
      if (channel.pending.length > 0) unsent.add(channel)
    }
    const remove = all.add({ noun: view.noun, only: view.only, deliver })
    const close = () => {
      remove()
      unsent.delete(channel)
      byKey.delete(key)
    }
    const opened = Object.assign(channel, { close })
    byKey.set(key, opened)
    return opened
  }
  return {
    add: (receiver, view, from) => {
      const key = view.key === null ? receiver : `${view.noun} ${view.key}`
      const channel = byKey.get(key) ?? open(key, view)
      channel.receivers.set(receiver, from)
      return () => {
        if (channel.receivers.delete(receiver) && channel.receivers.size === 0) channel.close()
      }
    },
    collect: all.deliver,
    flush: () => {
      let writes = 0
      for (const channel of unsent) writes += send(channel)
      unsent.clear()
      return writes
    },
    nouns: all.nouns,
  }
}

function collect({ receivers, pending }: Channel, { eventFor }: StreamView, change: Change): void {
  if (pending.at(-1)?.isLast) return
  try {
    const event = eventFor(change)
    if (event !== null) pending.push({ at: change.at, ...event })
  } catch (error) {
    for (const receiver of [...receivers.keys()]) receiver.fail(error)
  }
}

/** Sends the collected events of a channel; returns the number of writes. */
function send({ receivers, pending }: Channel): number {
  const events = pending.splice(0)
  const [first, last] = [events[0], events.at(-1)]
  if (first === undefined) return 0
  const content = contentOf(events)
  let writes = 0
  for (const [receiver, from] of [...receivers]) {
    // A stream that has just joined may have received some of these events while it was catching up with the log.
    const own = from < first.at ? content : contentOf(events.filter(({ at }) => at > from))
    if (own.length === 0) continue
    receiver.send(own)
    if (last?.isLast) receiver.end()
    writes++
  }
  return writes
}

/** Returns the text of events as bytes, which all receivers share. */
const contentOf = (events: readonly Pending[]): Buffer => Buffer.from(events.map(({ text }) => text).join(''))
