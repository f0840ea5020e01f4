import type { Worker } from 'node:worker_threads'
import type { ThreadCounts } from '../metrics/metrics.ts'
import type { ThreadMessage, ToThread } from './messages.ts'

type Port = Pick<Worker, 'postMessage'>

export interface HubOptions {
  /** Returns the ready threads by number, except the one with this number. */
  others: (number: number) => ReadonlyMap<number, Port>
  later: (ms: number, run: () => void) => () => void
}

/**
 * Relays a thread's request for metric counts, with its own counts, to all other threads, and their replies back to it.
 * The counts of the process never decrease, because it also passes on what ended threads had counted.
 */
export interface Hub {
  receive: (number: number, worker: Port, message: Extract<ThreadMessage, { event: 'question' | 'answer' }>) => void
  /** Keeps the last counts of a thread that has ended. */
  onEnded: (number: number) => void
}

/** If a thread does not reply within this time, because it hangs or is exiting, its last reply is passed on. */
const limitMs = 1_000

export function openHub({ others, later }: HubOptions): Hub {
  const waiting = new Map<number, { missing: Set<number>; done: () => void }>()
  const latest = new Map<number, ThreadCounts>()
  let ended: ThreadCounts[] = []
  let ending = Promise.resolve()
  let ids = 0
  const ask = (number: number, worker: Port, question: number) => {
    const id = ++ids
    const asked = others(number)
    const missing = new Set(asked.keys())
    const done = () => {
      cancel()
      if (!waiting.delete(id)) return
      const counted = [...asked.keys()].flatMap((other) => latest.get(other) ?? [])
      send(worker, { event: 'answers', id: question, counted: [...counted, ...ended] })
    }
    const cancel = later(limitMs, done)
    waiting.set(id, { missing, done })
    for (const other of asked.values()) send(other, { event: 'question', id })
    if (missing.size === 0) done()
  }
  return {
    receive: (number, worker, message) => {
      latest.set(number, message.counted)
      if (message.event === 'question') return ask(number, worker, message.id)
      const { missing, done } = waiting.get(message.id) ?? {}
      missing?.delete(number)
      if (missing?.size === 0) done?.()
    },
    onEnded: (number) => {
      const last = latest.get(number)
      latest.delete(number)
      if (last === undefined) return
      ended.push(last)
      ending = ending.then(async () => {
        const { sumOfEnded } = await import('../metrics/metrics.ts')
        // Further threads may end during the sum.
        const summed = [...ended]
        const sum = await sumOfEnded(summed)
        ended = [sum, ...ended.slice(summed.length)]
      })
    },
  }
}

const send = (worker: Port, message: ToThread) => worker.postMessage(message)
