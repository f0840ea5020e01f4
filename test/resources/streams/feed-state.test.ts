import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type FeedState, pollSoon } from '../../../src/resources/streams/feed-state.ts'

/** Returns the pause before the next read of the log, in ms, after events were sent to this number of streams. */
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
