/** Values by their keys, gathered in memory and written down together. */
export interface Batched<Value> {
  /** Adds to what a key has: a step in a map. */
  add: (key: string, value: Value) => void
  /** Writes down what was gathered, and keeps gathering. */
  flush: () => Promise<void>
  /** Writes down the rest and ends. */
  close: () => Promise<void>
}

export interface BatchedOptions<Value> {
  write: (values: ReadonlyMap<string, Value>) => Promise<void>
  merge: (one: Value, other: Value) => Value
  onError: (error: unknown) => void
}

const flushEveryMs = 5_000

/**
 * Gathers values and writes them every few seconds, those of a failed time with the next ones. What was gathered since the
 * last time is lost with a killed process: it is for statistics.
 */
export function batched<Value>({ write, merge, onError }: BatchedOptions<Value>): Batched<Value> {
  let values = new Map<string, Value>()
  let flushing: Promise<void> = Promise.resolve()
  const add = (key: string, value: Value) => {
    const before = values.get(key)
    values.set(key, before === undefined ? value : merge(before, value))
  }
  async function flushNow(): Promise<void> {
    if (values.size === 0) return
    const taken = values
    values = new Map()
    await write(taken).catch((error) => {
      for (const [key, value] of taken) add(key, value)
      onError(error)
    })
  }
  const flush = () => {
    flushing = flushing.then(flushNow)
    return flushing
  }
  const timer = setInterval(flush, flushEveryMs)
  return {
    add,
    flush,
    close: () => {
      clearInterval(timer)
      return flush()
    },
  }
}
