import { setImmediate as turn } from 'node:timers/promises'

/** Calls `run` after `ms`; returns a function that cancels the timer. */
export const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

/** Like `later`, but with a hundred times the timeout, so that limits are not exceeded on a busy machine. */
export const muchLater = (ms: number, run: () => void) => later(ms * 100, run)

/** Creates timers that run only when the test advances the time with `pass`. */
export function drivenTimers() {
  let nowMs = 0
  const waiting = new Set<{ atMs: number; run: () => void }>()
  const due = () => [...waiting].filter(({ atMs }) => atMs <= nowMs).sort((one, other) => one.atMs - other.atMs)[0]
  return {
    later: (ms: number, run: () => void) => {
      const timer = { atMs: nowMs + ms, run }
      waiting.add(timer)
      return () => void waiting.delete(timer)
    },
    /** Returns the remaining times of pending timers, in ms, in ascending order. */
    pending: () => [...waiting].map(({ atMs }) => atMs - nowMs).sort((one, other) => one - other),
    pass: (ms: number) => {
      nowMs += ms
      for (let timer = due(); timer; timer = due()) {
        waiting.delete(timer)
        timer.run()
      }
    },
  }
}

/** Yields to the event loop until the condition holds; only the test's timeout limits the wait. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await turn()
}
