/** Thrown instead of asking a store that does not answer. */
export class StoreDown extends Error {
  override name = 'StoreDown'
}

export interface BreakerOptions {
  /** How long an answer may take. */
  timeoutMs: number
  /** Asks the store whether it answers again. */
  probe: () => Promise<unknown>
  /** Runs something after so many ms; returns how to call it off. */
  later: (ms: number, run: () => void) => () => void
  /** Is told when the store stops answering, and why; and when it answers again. */
  onDown: (error: unknown) => void
  onUp: () => void
}

const probeEveryMs = 500

/**
 * Stands in front of a store: after one failure nobody asks it any more, and nobody waits for it, until a probe in the
 * background was answered.
 */
export function breaker({ timeoutMs, probe, later, onDown, onUp }: BreakerOptions) {
  let isDown = false
  let isClosed = false
  let cancel: (() => void) | null = null
  const inTime = <T>(work: () => Promise<T>): Promise<T> => {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const late = new StoreDown(`No answer in ${timeoutMs} ms`)
    // An answer that came while this process had its hands full is in time: it is read before the next check.
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
    /** What the store answers. Rejects at once while it is down. */
    ask: async <T>(work: () => Promise<T>): Promise<T> => {
      if (isDown) throw new StoreDown('The store of limits does not answer')
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
