/** Thrown when a call to the store times out, and for every call while the store is down. */
export class StoreDown extends Error {
  override name = 'StoreDown'
}

export interface BreakerOptions {
  /** The timeout for each call. */
  timeoutMs: number
  /** Checks whether the store responds again. */
  probe: () => Promise<unknown>
  /** Runs a callback after `ms`; returns a function that cancels it. */
  later: (ms: number, run: () => void) => () => void
  /** Called with the error when the store stops responding; `onUp` is called when the store responds again. */
  onDown: (error: unknown) => void
  onUp: () => void
}

const probeEveryMs = 500

/**
 * Creates a circuit breaker for a store: after one failure, every call fails immediately until a background probe
 * succeeds.
 */
export function breaker({ timeoutMs, probe, later, onDown, onUp }: BreakerOptions) {
  let isDown = false
  let isClosed = false
  let cancel: (() => void) | null = null
  const inTime = <T>(work: () => Promise<T>): Promise<T> => {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const late = new StoreDown(`No response within ${timeoutMs} ms`)
    // setImmediate lets the process first read a response that arrived in time while the process was busy.
    const settled = later(timeoutMs, () => setImmediate(reject, late))
    work().then(resolve, reject)
    return promise.finally(settled)
  }
  const probeSoon = () => {
    if (isClosed) return
    cancel = later(probeEveryMs, () => {
      inTime(probe).then(() => {
        isDown = false
        onUp()
      }, probeSoon)
    })
  }
  const trip = (error: unknown) => {
    if (isDown || isClosed) return
    isDown = true
    onDown(error)
    probeSoon()
  }
  return {
    /** Calls the store. Rejects immediately while the store is down. */
    ask: async <T>(work: () => Promise<T>): Promise<T> => {
      if (isDown) throw new StoreDown('The store of the rate limits does not respond')
      try {
        return await inTime(work)
      } catch (error) {
        trip(error)
        throw error
      }
    },
    close: () => {
      isClosed = true
      cancel?.()
    },
  }
}
