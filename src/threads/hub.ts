import type { Worker } from 'node:worker_threads'
import type { ThreadCounts } from '../metrics/metrics.ts'
import type { ThreadMessage, ToThread } from './messages.ts'

export interface HubOptions {
  /** Returns the ready threads, except the one with this number. */
  others: (number: number) => Worker[]
  later: (ms: number, run: () => void) => () => void
}

/** Relays a thread's request for metric counts to all other threads, and their replies back to that thread. */
export interface Hub {
  receive: (number: number, worker: Worker, message: Extract<ThreadMessage, { event: 'question' | 'answer' }>) => void
}

/** A thread that does not reply within this time, because it hangs or is exiting, is left out. */
const limitMs = 1_000

export function openHub({ others, later }: HubOptions): Hub {
  const waiting = new Map<number, { expected: number; counted: ThreadCounts[]; done: () => void }>()
  let ids = 0
  const ask = (number: number, worker: Worker, question: number) => {
    const id = ++ids
    const asked = others(number)
    const counted: ThreadCounts[] = []
    const done = () => {
      cancel()
      if (waiting.delete(id)) send(worker, { event: 'answers', id: question, counted })
    }
    const cancel = later(limitMs, done)
    waiting.set(id, { expected: asked.length, counted, done })
    for (const other of asked) send(other, { event: 'question', id })
    if (asked.length === 0) done()
  }
  return {
    receive: (number, worker, message) => {
      if (message.event === 'question') return ask(number, worker, message.id)
      const { expected, counted, done } = waiting.get(message.id) ?? {}
      if (counted === undefined) return
      counted.push(message.counted)
      if (counted.length === expected) done?.()
    },
  }
}

const send = (worker: Worker, message: ToThread) => worker.postMessage(message)
