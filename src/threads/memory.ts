import type { SharedWakes } from '../queue/embedded.ts'
import { type LimitMemory, limitMemory } from '../rate-limits/threads/limit-cells.ts'
import { type SqliteMemory, sqliteMemory } from '../storage/sqlite/open.ts'

/** Memory that the threads of a process share. */
export interface ThreadMemory {
  sqlite: SqliteMemory
  limits: LimitMemory
  words: SharedArrayBuffer
}

/** Positions of the words: counts of revocations and of wakes, then one word per thread. */
const [revocationsAt, wakesAt, beatsAt] = [0, 1, 2]

/** Creates the memory for threads whose numbers are at most `maxNumber`. */
export const threadMemory = (maxNumber: number): ThreadMemory => ({
  sqlite: sqliteMemory(),
  limits: limitMemory(),
  words: new SharedArrayBuffer((beatsAt + maxNumber + 1) * Int32Array.BYTES_PER_ELEMENT),
})

/** Returns the count of revocations of all threads. */
export function sharedRevocations({ words }: ThreadMemory): { count: number } {
  const counts = new Int32Array(words)
  return {
    get count() {
      return Atomics.load(counts, revocationsAt)
    },
    // Threads may increment the count at the same time: any change of it invalidates what they have cached.
    set count(_next: number) {
      Atomics.add(counts, revocationsAt, 1)
    },
  }
}

/** Wakes the threads that wait for jobs. */
export function sharedWakes({ words }: ThreadMemory): SharedWakes {
  const counts = new Int32Array(words)
  return {
    wake: () => {
      Atomics.add(counts, wakesAt, 1)
      Atomics.notify(counts, wakesAt)
    },
    onWake: (run) => {
      let isStopped = false
      const wait = async () => {
        let seen = Atomics.load(counts, wakesAt)
        while (!isStopped) {
          await Atomics.waitAsync(counts, wakesAt, seen).value
          seen = Atomics.load(counts, wakesAt)
          if (!isStopped) run()
        }
      }
      void wait()
      return () => {
        isStopped = true
      }
    },
  }
}

/** Counts the heartbeats of a thread. */
export function beatsOf({ words }: ThreadMemory, number: number): { add: () => void; count: () => number } {
  const counts = new Int32Array(words)
  return {
    add: () => void Atomics.add(counts, beatsAt + number, 1),
    count: () => Atomics.load(counts, beatsAt + number),
  }
}
