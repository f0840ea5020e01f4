import { monitorEventLoopDelay } from 'node:perf_hooks'

const resolutionMs = 20

/** Measures the delay of the event loop. `read` returns the 99th percentile since the previous call, in ms. */
export function loopDelay() {
  const delays = monitorEventLoopDelay({ resolution: resolutionMs })
  delays.enable()
  return {
    read: (): number => {
      const ms = Math.max(0, delays.percentile(99) / 1_000_000 - resolutionMs)
      delays.reset()
      return Math.round(ms * 100) / 100
    },
    stop: () => void delays.disable(),
  }
}
