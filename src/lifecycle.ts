import type { Log } from './logging/entries.ts'
import type { OnClose } from './parts.ts'
import type { Stores } from './stores.ts'

export const wall = Date.now
/** The time of `performance` begins with the thread, so the time of the machine is added. */
const originMs = Number(process.hrtime.bigint()) / 1e6 - performance.now()
export const monotonic = () => originMs + performance.now()
export const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}
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

/** Opens components, which register how they are closed. If `open` rejects, nothing is left open. */
export async function openAll<Components extends object>(
  open: (onClose: OnClose) => Promise<Components>,
): Promise<Opened<Components>> {
  const closers: (() => unknown)[] = []
  /** Runs every closer, even after one has failed, as some do while the database is down. Then throws their errors. */
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
    // Closing may fail for the same reason, which the first error explains better.
    await close().catch(() => {})
    throw error
  }
}

/** Makes `close` log why the service stops and how long that takes. `flush` writes the last lines of the log. */
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
