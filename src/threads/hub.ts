import type { Worker } from 'node:worker_threads'
import type { Counted } from '../metrics/metrics.ts'
import type { FromThread, ToThread } from './messages.ts'

export interface HubOptions {
  /** Returns the ready threads, except the one with this number. */
  others: (number: number) => Worker[]
  later: (ms: number, run: () => void) => () => void
}

/** Passes the questions of one thread to the others, and their answers back to it. */
export interface Hub {
  receive: (number: number, worker: Worker, message: Extract<FromThread, { event: 'question' | 'answer' }>) => void
}

/** A thread that does not answer within this time is left out, as it hangs or is ending. */
const limitMs = 1_000

export function openHub({ others, later }: HubOptions): Hub {
  const waiting = new Map<number, { expected: number; counted: Counted[]; done: () => void }>()
  let ids = 0
  const ask = (number: number, worker: Worker, question: number) => {
    const id = ++ids
    const asked = others(number)
    const counted: Counted[] = []
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
