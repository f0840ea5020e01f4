import { setImmediate as turn } from 'node:timers/promises'

/** Timers that pass by themselves. */
export const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

/** Timers of time limits that a busy machine does not reach. */
export const patient = (ms: number, run: () => void) => later(ms * 100, run)

/** Timers that pass when the test says so. */
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
    /** What is waited for, in ms from now. */
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

/** Turns the event loop until something holds; the test's own time limit is what ends it otherwise. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await turn()
}
