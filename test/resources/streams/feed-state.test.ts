import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type FeedState, pollSoon } from '../../../src/resources/streams/feed-state.ts'

/** Returns how long, in ms, the feed waits before it reads the log again after sending events to this many streams. */
function pauseAfter(writes: number): number | undefined {
  let pauseMs: number | undefined
  const later = (ms: number) => {
    pauseMs = ms
    return () => {}
  }
  pollSoon({ later, writes, cancels: { poll: null, check: null } } as Partial<FeedState> as FeedState)
  return pauseMs
}

describe('the feed', () => {
  for (const [writes, ms] of [
    [0, 100],
    [200, 100],
    [600, 300],
    [10_000, 500],
  ] as const) {
    it(`reads the log again ${ms} ms after it has sent events to ${writes} streams`, () => {
      assert.equal(pauseAfter(writes), ms)
    })
  }
})
