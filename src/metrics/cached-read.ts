export interface CachedReadOptions<Value> {
  read: () => Promise<Value>
  /** How long a value is reused, in ms. */
  freshMs: number
  /** How long a caller waits for a value, in ms. */
  limitMs: number
  /** Returns the monotonic time in ms. */
  monotonic: () => number
  /** Runs a callback after `ms`; returns a function that cancels it. */
  later: (ms: number, run: () => void) => () => void
  /** Called with the error of a failed read. */
  onError: (error: unknown) => void
}

/**
 * Returns a function that reads a value. All callers share one read: at most one starts within `freshMs`, and never two
 * at the same time. Resolves with null if the read fails or the caller has waited `limitMs`; never rejects.
 */
export function cachedRead<Value>(options: CachedReadOptions<Value>): () => Promise<Value | null> {
  const { read, freshMs, limitMs, monotonic, later, onError } = options
  let latest: Promise<Value | null> = Promise.resolve(null)
  let isReading = false
  let startedMs = Number.NEGATIVE_INFINITY
  const start = async (): Promise<Value | null> => {
    try {
      return await read()
    } catch (error) {
      onError(error)
      return null
    } finally {
      isReading = false
    }
  }
  return async () => {
    if (!isReading && monotonic() - startedMs >= freshMs) {
      isReading = true
      startedMs = monotonic()
      latest = start()
    }
    const { promise: late, resolve } = Promise.withResolvers<null>()
    const cancel = later(limitMs, () => resolve(null))
    return Promise.race([latest, late]).finally(cancel)
  }
}
