import type { Exclusively } from '../http/server/stop-listening.ts'
import type { SharedWakes } from '../queue/embedded.ts'
import { type LimitMemory, limitMemory } from '../rate-limits/threads/limit-cells.ts'
import { releaseThread, type SqliteMemory, sqliteMemory } from '../storage/sqlite/open.ts'
import { threadLock, threadLockMemory, unlockFor } from '../storage/thread-lock.ts'

/** The memory that the threads of a process share. */
export interface ThreadMemory {
  sqlite: SqliteMemory
  limits: LimitMemory
  /** The lock that a thread holds while it stops listening. */
  listening: SharedArrayBuffer
  counts: SharedArrayBuffer
  /** For each thread, the delay of its event loop in hundredths of a millisecond. */
  delays: SharedArrayBuffer
  /** For each thread, the name of the hook, action or job that it is running. */
  code: SharedArrayBuffer
}

/**
 * Indexes in `counts`: the count of revocations, the count of wakes, and the first of the heartbeat counts, one per
 * thread.
 */
const [revocationsAt, wakesAt, beatsAt] = [0, 1, 2]

/** The size of a thread's part of `code`: one byte for the length of the name, then the name, truncated if too long. */
const nameBytes = 128

/** Creates the memory for threads with numbers up to `maxNumber`. */
export const threadMemory = (maxNumber: number): ThreadMemory => ({
  sqlite: sqliteMemory(),
  limits: limitMemory(),
  listening: threadLockMemory(),
  counts: new SharedArrayBuffer((beatsAt + maxNumber + 1) * Int32Array.BYTES_PER_ELEMENT),
  delays: new SharedArrayBuffer((maxNumber + 1) * Int32Array.BYTES_PER_ELEMENT),
  code: new SharedArrayBuffer((maxNumber + 1) * nameBytes),
})

/** Releases the locks that a thread held when it ended. */
export function releaseLocks(memory: ThreadMemory, number: number): void {
  releaseThread(memory.sqlite, number)
  unlockFor(memory.listening, number)
}

/** Returns the function with which the threads stop listening one after another. */
export function stopsInTurn(memory: ThreadMemory, number: number): Exclusively {
  const { lock, unlock } = threadLock(memory.listening, number)
  return async (stop) => {
    await lock()
    await stop().finally(unlock)
  }
}

/** Returns the count of revocations that all threads share. Assigning any number increments it. */
export function sharedRevocations(memory: ThreadMemory): { count: number } {
  const counts = new Int32Array(memory.counts)
  return {
    get count() {
      return Atomics.load(counts, revocationsAt)
    },
    // Threads may increment the count at the same time, so `_next` is ignored. Any change invalidates the caches.
    set count(_next: number) {
      Atomics.add(counts, revocationsAt, 1)
    },
  }
}

/** Returns the functions with which threads wake each other to check for jobs. */
export function sharedWakes(memory: ThreadMemory): SharedWakes {
  const counts = new Int32Array(memory.counts)
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

/** Returns functions that count a heartbeat of a thread and read the count. */
export function beatsOf(memory: ThreadMemory, number: number): { add: () => void; count: () => number } {
  const counts = new Int32Array(memory.counts)
  return {
    add: () => void Atomics.add(counts, beatsAt + number, 1),
    count: () => Atomics.load(counts, beatsAt + number),
  }
}

/** Returns functions that store the delay of a thread's event loop in ms, and return the largest of all threads. */
export function loopDelaysOf(memory: ThreadMemory, number: number) {
  const delays = new Int32Array(memory.delays)
  return {
    report: (ms: number) => void Atomics.store(delays, number, Math.round(ms * 100)),
    largest: (): number => Math.max(...delays) / 100,
  }
}

/**
 * Returns functions that store and read the name of the hook, action or job that a thread runs; empty if it runs none.
 */
export function codeNameOf(
  { code }: ThreadMemory,
  number: number,
): { set: (name: string) => void; read: () => string } {
  const bytes = new Uint8Array(code, number * nameBytes, nameBytes)
  const text = bytes.subarray(1)
  const encoder = new TextEncoder()
  return {
    set: (name) => {
      bytes[0] = name === '' ? 0 : encoder.encodeInto(name, text).written
    },
    // Copied, because a decoder does not accept shared memory.
    read: () => new TextDecoder().decode(text.slice(0, bytes[0])),
  }
}
