/** A lock that the threads of a process share. */
export interface ThreadLock {
  /** Takes the lock. Returns undefined if it was free, otherwise a promise that resolves once this thread holds it. */
  lock: () => undefined | Promise<void>
  /** Takes the lock if it is free; returns whether it was. */
  tryLock: () => boolean
  unlock: () => void
}

const [stateAt, ownerAt] = [0, 1]
/** The states of the lock. The owner of a contended lock must wake a waiting thread. */
const [free, taken, contended] = [0, 1, 2]

const keepAliveMs = 60_000

/** Creates the memory of a lock, which all threads share. */
export const threadLockMemory = (): SharedArrayBuffer => new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT)

/** Returns a thread's access to the lock; thread numbers start at 1. */
export function threadLock(memory: SharedArrayBuffer, thread: number): ThreadLock {
  const words = new Int32Array(memory)
  const own = () => Atomics.store(words, ownerAt, thread)
  const tryLock = () => {
    const isFree = Atomics.compareExchange(words, stateAt, free, taken) === free
    if (isFree) own()
    return isFree
  }
  const wait = async () => {
    // Without a timer, a thread with nothing else to do would exit instead of waiting.
    const timer = setInterval(() => {}, keepAliveMs)
    while (Atomics.exchange(words, stateAt, contended) !== free) {
      await Atomics.waitAsync(words, stateAt, contended).value
    }
    clearInterval(timer)
    own()
  }
  return { tryLock, lock: () => (tryLock() ? undefined : wait()), unlock: () => release(words) }
}

/** Releases the lock if this thread, which has ended, held it. */
export function unlockFor(memory: SharedArrayBuffer, thread: number): void {
  const words = new Int32Array(memory)
  if (Atomics.load(words, ownerAt) === thread) release(words)
}

function release(words: Int32Array): void {
  Atomics.store(words, ownerAt, 0)
  if (Atomics.exchange(words, stateAt, free) === contended) Atomics.notify(words, stateAt, 1)
}
