import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { whenAborted } from '../../http/server/response-end.ts'

/** A client with more unread bytes than this is disconnected. It can resume after the last event that it received. */
export const maxUnreadBytes = 262_144

/** The content of a response that is sent piece by piece. */
export interface StreamOutput {
  content: Readable
  send: (content: string | Buffer) => void
  /** From now on, disconnects the client if it has too many unread bytes. */
  bound: () => void
  /** Resolves when the client has read enough to receive more, or when the response has ended. */
  drained: () => Promise<void>
  finish: () => void
  /** Aborted when the response ends. */
  ended: AbortSignal
}

/** Creates the content of a reply; `end` is aborted when the connection has closed. */
export function boundedOutput({ raw }: FastifyReply, end: AbortSignal): StreamOutput {
  const ended = new AbortController()
  const waiting = new Set<() => void>()
  const resume = () => {
    for (const one of waiting) one()
    waiting.clear()
  }
  const content = new Readable({ read: resume })
  let isBounded = false
  const finish = () => {
    if (ended.signal.aborted) return
    content.push(null)
    ended.abort()
  }
  whenAborted(end, () => ended.abort())
  whenAborted(ended.signal, resume)
  return {
    ...{ content, finish, ended: ended.signal },
    send: (part) => {
      if (ended.signal.aborted) return
      content.push(part)
      if (isBounded && content.readableLength > maxUnreadBytes) raw.destroy()
    },
    bound: () => {
      isBounded = true
    },
    drained: async () => {
      if (content.readableLength > 0 && !ended.signal.aborted) await new Promise<void>((done) => waiting.add(done))
    },
  }
}
