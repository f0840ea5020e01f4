import type { Log } from './logging/entries.ts'
import type { Stores } from './stores.ts'

export const wall = Date.now
/**
 * `performance.now()` starts at 0 in each thread. Adding the machine's monotonic time at that start makes the values
 * comparable between threads.
 */
const originMs = Number(process.hrtime.bigint()) / 1e6 - performance.now()
export const monotonic = () => originMs + performance.now()
export const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}
/** Registers a cleanup function. The functions run in reverse order. */
export type OnClose = (closer: () => unknown) => void

/** A running service. */
export interface Service extends Stores {
  baseUrl: string
  log: Log
  /** The CA certificate that clients must trust, if the service created its own. */
  authorityFile: string | null
  /**
   * Stops accepting work, finishes work in progress and releases leases; resolves when nothing is running. Logs the reason,
   * such as a signal.
   */
  close: (reason?: string) => Promise<void>
}

/** Components, and the function that closes them in reverse order. */
export type Opened<Components> = Components & { close: () => Promise<void> }

/** Opens components, which register their own cleanup functions. If `open` rejects, closes what was opened. */
export async function openAll<Components extends object>(
  open: (onClose: OnClose) => Promise<Components>,
): Promise<Opened<Components>> {
  const closers: (() => unknown)[] = []
  /**
   * Runs every cleanup function even if some fail, for example while the database is down, and then throws their
   * errors.
   */
  const close = async () => {
    const errors: unknown[] = []
    for (const closer of closers.splice(0).reverse()) {
      await (async () => closer())().catch((error: unknown) => errors.push(error))
    }
    if (errors.length > 1) throw new AggregateError(errors, 'Several components did not close')
    if (errors.length === 1) throw errors[0]
  }
  try {
    return { ...(await open((closer) => closers.push(closer))), close }
  } catch (error) {
    // Closing may fail for the same reason; the first error explains it better.
    await close().catch(() => {})
    throw error
  }
}

/** Makes `close` log the reason for stopping, and how long the stop takes. `flush` writes the last lines of the log. */
export function loggingClose({
  close,
  flush,
  ...service
}: Opened<Omit<Service, 'close'> & { flush: () => void }>): Service {
  const { log } = service
  const startedAt = monotonic()
  const closeLogged = async (reason = 'closed') => {
    const stoppingAt = monotonic()
    log.info({ reason, uptimeSeconds: Math.round((stoppingAt - startedAt) / 1_000) }, 'service stopping')
    try {
      await close()
      log.info({ ms: Math.round(monotonic() - stoppingAt) }, 'service stopped')
    } catch (err) {
      log.error({ what: 'shutdown', err }, 'background work failed')
      throw err
    } finally {
      flush()
    }
  }
  return { ...service, close: closeLogged }
}
