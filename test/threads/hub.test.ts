import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openMetrics, type ThreadCounts } from '../../src/metrics/metrics.ts'
import { openHub } from '../../src/threads/hub.ts'
import type { ToThread } from '../../src/threads/messages.ts'
import { scraped } from '../support/metrics.ts'
import { drivenTimers, until } from '../support/timers.ts'

/** Returns three threads, connected by a hub. Thread 1 asks; each thread has answered a number of requests. */
function threads() {
  const timers = drivenTimers()
  const hanging = new Set<number>()
  const ended = new Set<number>()
  let questions = 0
  const asked = new Map<number, (counted: ThreadCounts[]) => void>()
  const create = (number: number) => {
    const others = (own: ThreadCounts) =>
      new Promise<ThreadCounts[]>((resolve) => {
        asked.set(++questions, resolve)
        hub.receive(number, port, { event: 'question', id: questions, counted: own })
      })
    const monotonic = () => 0
    const metrics = openMetrics({
      version: 'test',
      versions: [],
      monotonic,
      ofThread: null,
      ...(number === 1 && { others }),
    })
    const port = {
      postMessage: async (message: ToThread) => {
        if (message.event === 'answers') return asked.get(message.id)?.(message.counted)
        if (message.event !== 'question' || hanging.has(number)) return
        hub.receive(number, port, { event: 'answer', id: message.id, counted: await metrics.counted() })
      },
    }
    const respond = (times: number) => {
      for (let at = 0; at < times; at++)
        metrics.onResponse({ method: 'GET', route: '/a', status: 200, ms: 1, client: undefined })
    }
    return { metrics, port, respond }
  }
  const hub = openHub({
    others: (number) =>
      new Map(
        [2, 3].filter((other) => other !== number && !ended.has(other)).map((other) => [other, all[other]!.port]),
      ),
    later: timers.later,
  })
  const all: Record<number, ReturnType<typeof create>> = { 1: create(1), 2: create(2), 3: create(3) }
  const total = async () => {
    const { all: samples } = scraped(await all[1]!.metrics.read())
    return samples('plinth_http_requests_total').reduce((sum, { value }) => sum + value, 0)
  }
  const end = (number: number) => {
    ended.add(number)
    hub.onEnded(number)
  }
  return { all, hanging, end, total, timers }
}

describe('the metrics of several threads', () => {
  it('add up the counts of all threads', async () => {
    const { all, total } = threads()
    for (const thread of Object.values(all)) thread.respond(2)
    assert.equal(await total(), 6)
    assert.equal((await all[1]!.metrics.totals()).byClass[0], 6)
  })

  it('contain the last known counts of a thread that does not reply within a second', async () => {
    const { all, hanging, total, timers } = threads()
    all[2]!.respond(5)
    assert.equal(await total(), 5)
    hanging.add(2)
    all[3]!.respond(1)
    const later = total()
    await until(() => timers.pending().includes(1_000))
    timers.pass(1_000)
    assert.equal(await later, 6)
  })

  for (const turns of [0, 1, 2, 3, 4, 5, 10, 20])
    it(`still contain the counts of threads that have ended, ${turns} microtasks apart`, async () => {
      const { all, end, total } = threads()
      all[2]!.respond(5)
      all[3]!.respond(7)
      assert.equal(await total(), 12)
      end(2)
      // The second thread may end at any point of the sum over the ended threads.
      for (let turn = 0; turn < turns; turn++) await null
      end(3)
      assert.equal(await total(), 12)
      await new Promise(setImmediate)
      assert.equal(await total(), 12)
      assert.equal((await all[1]!.metrics.totals()).byClass[0], 12)
    })
})
