import { setImmediate as turn } from 'node:timers/promises'

/** Real timers. */
export const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

/** Timers with timeouts so long that they do not expire, even on a busy machine. */
export const patient = (ms: number, run: () => void) => later(ms * 100, run)

/** Creates timers that the test advances. */
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
    /** Pending timers, in ms from now. */
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
