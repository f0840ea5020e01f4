/** Calls `run` after `ms` milliseconds; returns a function that cancels the timer. */
export type SetTimer = (ms: number, run: () => void) => () => void

/** A timer that does not keep the process alive. */
export const realTimer: SetTimer = (ms, run) => {
  const timer = setTimeout(run, ms).unref()
  return () => clearTimeout(timer)
}
