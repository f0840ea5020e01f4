/** Registers a cleanup function. The functions run in reverse order. */
export type Defer = (close: () => unknown) => void

/** Collects cleanup functions. `close` runs all of them, even if one fails, and then throws the last error. */
export function closing(): { defer: Defer; close: () => Promise<void> } {
  const closers: (() => unknown)[] = []
  const close = async (): Promise<void> => {
    const last = closers.pop()
    if (last === undefined) return
    try {
      await last()
    } finally {
      await close()
    }
  }
  return { defer: (closer) => void closers.push(closer), close }
}

const exitCodes = { SIGINT: 130, SIGTERM: 143, SIGPIPE: 141 }

/**
 * Returns an AbortSignal that is aborted on Ctrl-C, SIGTERM or a closed standard output, with the exit code as the
 * reason. Ctrl-C or SIGTERM after that exits at once, until `release` is called.
 */
export function interruptible(): { signal: AbortSignal; release: () => void } {
  const controller = new AbortController()
  const stop = (name: 'SIGINT' | 'SIGTERM') => {
    if (controller.signal.aborted) process.exit(exitCodes[name])
    controller.abort(exitCodes[name])
  }
  process.on('SIGINT', stop).on('SIGTERM', stop)
  // The listener stays registered, because every later write fails as well.
  process.stdout.on('error', () => controller.abort(exitCodes.SIGPIPE))
  return { signal: controller.signal, release: () => void process.off('SIGINT', stop).off('SIGTERM', stop) }
}
