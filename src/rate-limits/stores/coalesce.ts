/** The result of the batch that contains a call, and the call's zero-based position in the batch. */
export interface Coalesced<T> {
  result: T
  index: number
  calls: number
}

interface Waiting<T> {
  resolve: (batched: Coalesced<T>) => void
  reject: (error: unknown) => void
}

/**
 * Coalesces calls for the same key. All calls that arrive while a request for the key is in flight are counted by the
 * next request, so the store handles only one request per key at a time.
 */
export function inBatches<T>(run: (key: string, calls: number) => Promise<T>): (key: string) => Promise<Coalesced<T>> {
  const pending = new Map<string, Waiting<T>[]>()
  const step = async (key: string, batch: Waiting<T>[]) => {
    const calls = batch.length
    try {
      const result = await run(key, calls)
      batch.forEach(({ resolve }, index) => {
        resolve({ result, index, calls })
      })
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
    const next = pending.get(key) ?? []
    pending.delete(key)
    if (next.length > 0) start(key, next)
  }
  const start = (key: string, batch: Waiting<T>[]) => {
    pending.set(key, [])
    void step(key, batch)
  }
  return (key) =>
    new Promise((resolve, reject) => {
      const next = pending.get(key)
      next ? next.push({ resolve, reject }) : start(key, [{ resolve, reject }])
    })
}
